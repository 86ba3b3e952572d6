"""The inbox's half of reservation-api, from a list in memory, to test the browser client without the other services.

What people do here is told as the system tells it: by frames on `notification.websocket`.
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

from tablebell.frames import Addressed, NotificationFrame, ReadFrame, ResolvedFrame, addressed
from tablebell.inbox import NotificationView, Resolution
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker
from tablebell.web import serve
from ws_gateway.testing.running import AUDIENCE, SECRET, free_port, publish

NAMES = {50: "Giulia", 51: "Marco", 52: "Sofia"}
ACTIONS = ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]


class InboxApi:
    def __init__(self, broker: Broker, port: int) -> None:
        self._broker = broker
        self.url = f"http://127.0.0.1:{port}"
        self.inboxes: dict[str, dict[int, NotificationView]] = {}
        self.proposed: list[str] = []
        self._number = 0
        self.app = self._make_app()

    def add(self, *people: str, **more: Any) -> list[Addressed]:
        """Tell people of a reservation; returns the frames, for the test to publish or to lose."""
        self._number += 1
        shared = self._number
        frames = []
        for place, person in enumerate(people):
            view = NotificationView(
                id=10 * shared + place,
                event_notification_id=shared,
                event_type="RESERVATION_REQUESTED",
                reservation_id=shared,
                title="Nuova prenotazione ricevuta",
                body=f"Prenotazione {shared}",
                properties=more,
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

    def resolve(self, view: NotificationView, user_id: int, action: str) -> list[Addressed]:
        resolution = Resolution(action=action, actor_id=user_id, actor_name=NAMES[user_id], at=datetime.now(UTC))
        people = self._change(view.event_notification_id, resolution=resolution, actions=[])
        frame = ResolvedFrame(event_notification_id=view.event_notification_id, **resolution.model_dump())
        return [addressed(frame, people)]

    def mark_read(self, view: NotificationView, user_id: int) -> list[Addressed]:
        people = self._change(view.event_notification_id, is_read=True, read_by_user_id=user_id)
        frame = ReadFrame(
            event_notification_id=view.event_notification_id, read_by_user_id=user_id, at=datetime.now(UTC)
        )
        return [addressed(frame, people)]

    def _change(self, shared: int, **changes: Any) -> list[str]:
        people = []
        for person, inbox in self.inboxes.items():
            for view in list(inbox.values()):
                if view.event_notification_id == shared:
                    inbox[view.id] = view.model_copy(update=changes)
                    people.append(person)
        return people

    def _make_app(self) -> FastAPI:  # noqa: C901 - six routes, each of a few lines
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

        def find(request: Request, number: int) -> tuple[NotificationView, int]:
            person = person_of(request)
            return self.inboxes[person][number], int(person.rpartition(":")[2])

        @app.get("/notifications")
        async def page(request: Request, limit: int = 20, cursor: int = 2**62) -> dict[str, Any]:
            inbox = self.inboxes.get(person_of(request), {})
            ids = [number for number in sorted(inbox, reverse=True) if number < cursor]
            items = [inbox[number].model_dump(mode="json", by_alias=True) for number in ids[:limit]]
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

        @app.post("/notifications/{number}/read")
        async def read(request: Request, number: int) -> dict[str, Any]:
            view, user_id = find(request, number)
            await publish(self._broker, self.mark_read(view, user_id))
            return find(request, number)[0].model_dump(mode="json", by_alias=True)

        @app.post("/notifications/{number}/actions", response_model=None)
        async def act(request: Request, number: int, body: dict[str, str]) -> JSONResponse | dict[str, Any]:
            view, user_id = find(request, number)
            if view.resolution is not None:
                by = view.resolution.model_dump(mode="json", by_alias=True)
                return JSONResponse({"status": 409, "title": "Handled", "handledBy": by}, 409)
            if "proposedTime" in body:
                self.proposed.append(body["proposedTime"])
            await publish(self._broker, self.resolve(view, user_id, body["actionType"]))
            return find(request, number)[0].model_dump(mode="json", by_alias=True)

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
