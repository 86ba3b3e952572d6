"""A stand-in for the inbox endpoints of reservation-api, to test the browser client without the other services.

It keeps the inboxes in memory. Like the real system, it publishes changes as frames on `notification.websocket`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import jwt
from fastapi import FastAPI, HTTPException, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse

from tablebell.frames import AddressedFrame, NotificationFrame, ReadFrame, ResolvedFrame, addressed
from tablebell.inbox import NotificationView, Resolution
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.tokens import AUDIENCE, SECRET
from tablebell.web import serve

from .harness import publish

NAMES = {50: "Giulia", 51: "Marco", 52: "Sofia"}
ACTIONS = ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]


class InboxApi:
    def __init__(self, broker: Broker, port: int) -> None:
        self._broker = broker
        self.url = f"http://127.0.0.1:{port}"
        self.inboxes: dict[str, dict[int, NotificationView]] = {}
        self.proposed_times: list[str] = []
        self._last_id = 0
        self.app = self._make_app()

    def add(self, *people: str, **properties: Any) -> list[AddressedFrame]:
        """Add a shared notification and return its frames. The test publishes or drops them."""
        self._last_id += 1
        shared_id = self._last_id
        frames = []
        for index, person in enumerate(people):
            view = NotificationView(
                id=10 * shared_id + index,
                event_notification_id=shared_id,
                event_type="RESERVATION_REQUESTED",
                reservation_id=shared_id,
                title="Nuova prenotazione ricevuta",
                body=f"Prenotazione {shared_id}",
                properties=properties,
                shared=True,
                actions=ACTIONS,
                is_read=False,
                created_at=datetime.now(UTC),
            )
            self.inboxes.setdefault(person, {})[view.id] = view
            frames.append(addressed(NotificationFrame(**view.model_dump()), [person]))
        return frames

    def ids(self, person: str) -> list[int]:
        return sorted(self.inboxes.get(person, {}), reverse=True)

    def unread(self, person: str) -> int:
        return sum(not view.is_read for view in self.inboxes.get(person, {}).values())

    def resolve(self, view: NotificationView, user_id: int, action: str) -> list[AddressedFrame]:
        resolution = Resolution(
            action=action,
            actor_type="RESTAURANT_USER",
            actor_id=user_id,
            actor_name=NAMES[user_id],
            at=datetime.now(UTC),
        )
        people = self._change(view.event_notification_id, resolution=resolution, actions=[])
        frame = ResolvedFrame(event_notification_id=view.event_notification_id, **resolution.model_dump())
        return [addressed(frame, people)]

    def mark_read(self, view: NotificationView, user_id: int) -> list[AddressedFrame]:
        people = self._change(view.event_notification_id, is_read=True, read_by_user_id=user_id)
        frame = ReadFrame(
            event_notification_id=view.event_notification_id, read_by_user_id=user_id, at=datetime.now(UTC)
        )
        return [addressed(frame, people)]

    def _change(self, shared_id: int, **changes: Any) -> list[str]:
        people = []
        for person, inbox in self.inboxes.items():
            for view in list(inbox.values()):
                if view.event_notification_id == shared_id:
                    inbox[view.id] = view.model_copy(update=changes)
                    people.append(person)
        return people

    def _make_app(self) -> FastAPI:  # noqa: C901 - five short routes
        app = FastAPI()
        app.add_middleware(
            CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["Authorization", "Content-Type"]
        )

        def person_of(request: Request) -> str:
            try:
                bearer = request.headers["Authorization"].removeprefix("Bearer ")
                claims = jwt.decode(bearer, SECRET, ["HS256"], audience=AUDIENCE)
            except (KeyError, jwt.PyJWTError):
                raise HTTPException(401) from None
            return f"{claims['user_type']}:{claims['sub']}"

        def find(request: Request, notification_id: int) -> tuple[NotificationView, int]:
            person = person_of(request)
            return self.inboxes[person][notification_id], int(person.rpartition(":")[2])

        @app.get("/notifications")
        async def page(request: Request, limit: int = 20, cursor: int = 2**62) -> dict[str, Any]:
            inbox = self.inboxes.get(person_of(request), {})
            ids = [each for each in sorted(inbox, reverse=True) if each < cursor]
            items = [inbox[each].model_dump(mode="json", by_alias=True) for each in ids[:limit]]
            return {"items": items, "nextCursor": str(ids[limit - 1]) if len(ids) > limit else None}

        @app.get("/notifications/unread-count")
        async def unread(request: Request) -> dict[str, int]:
            return {"unread": self.unread(person_of(request))}

        @app.post("/notifications/read-all")
        async def read_all(request: Request) -> dict[str, int]:
            person = person_of(request)
            views = [view for view in self.inboxes.get(person, {}).values() if not view.is_read]
            for view in views:
                await publish(self._broker, self.mark_read(view, int(person.rpartition(":")[2])))
            return {"read": len(views)}

        @app.post("/notifications/{notification_id}/read")
        async def read(request: Request, notification_id: int) -> dict[str, Any]:
            view, user_id = find(request, notification_id)
            await publish(self._broker, self.mark_read(view, user_id))
            return find(request, notification_id)[0].model_dump(mode="json", by_alias=True)

        @app.post("/notifications/{notification_id}/actions", response_model=None)
        async def act(request: Request, notification_id: int, body: dict[str, str]) -> JSONResponse | dict[str, Any]:
            view, user_id = find(request, notification_id)
            if view.resolution is not None:
                handled_by = view.resolution.model_dump(mode="json", by_alias=True)
                return JSONResponse({"status": 409, "title": "Handled", "handledBy": handled_by}, 409)
            if "proposedTime" in body:
                self.proposed_times.append(body["proposedTime"])
            await publish(self._broker, self.resolve(view, user_id, body["actionType"]))
            return find(request, notification_id)[0].model_dump(mode="json", by_alias=True)

        return app


@asynccontextmanager
async def open_inbox_api(broker: Broker) -> AsyncIterator[InboxApi]:
    stop = Stop()
    port = free_port()
    api = InboxApi(broker, port)
    serving = asyncio.create_task(serve(api.app, "127.0.0.1", port, stop))
    try:
        yield api
    finally:
        stop.request()
        await serving
