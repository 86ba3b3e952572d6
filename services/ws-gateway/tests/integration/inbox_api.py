"""A stand-in for the inbox endpoints of reservation-api, to test the browser client without the other services.

It keeps the inboxes in memory. Like the real system, it publishes changes as frames on `notification.websocket`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import jwt
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse

from tablebell.frames import (
    AddressedFrame,
    DismissedFrame,
    NotificationFrame,
    ReadFrame,
    ReservationFrame,
    ResolvedFrame,
    addressed,
)
from tablebell.inbox import SHARED_EVENTS, NotificationView, Outcome, Resolution
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.tokens import AUDIENCE, KEY
from tablebell.web import serve

from .harness import publish

NAMES = {50: "Giulia", 51: "Marco", 52: "Sofia"}
ACTIONS = ["CONFIRMED", "REJECTED", "POSTPONED", "DISMISSED"]
EVENTS = {
    "CONFIRMED": "RESERVATION_ACCEPTED",
    "REJECTED": "RESERVATION_REJECTED",
    "POSTPONED": "RESERVATION_POSTPONED",
    "CUSTOM": "RESERVATION_CANCELLED",
}
STATUSES = {"arrived": "ARRIVED", "no-show": "NO_SHOW", "undo": "ACCEPTED", "cancel": "CANCELLED"}
ROME = ZoneInfo("Europe/Rome")


class InboxApi:
    def __init__(self, broker: Broker, port: int) -> None:
        self._broker = broker
        self.url = f"http://127.0.0.1:{port}"
        self.inboxes: dict[str, dict[int, NotificationView]] = {}
        self.proposed_times: list[str] = []
        self.tables: dict[int, dict[str, Any]] = {}
        self.reasons: list[str] = []
        self.undo_seconds: float | None = None
        self.locale = "en"
        self.status: int | None = None
        """If set, every request gets this status."""
        self.is_answering = asyncio.Event()
        """While it is not set, requests wait."""
        self.is_answering.set()
        self._last_id = 0
        self.app = self._make_app()

    def add(
        self,
        *people: str,
        event_type: str = "RESERVATION_REQUESTED",
        waited: timedelta = timedelta(0),
        **properties: Any,
    ) -> list[AddressedFrame]:
        """Add a notification and return its frames. The test publishes or drops them."""
        is_shared = event_type in SHARED_EVENTS
        self._last_id += 1
        shared_id = self._last_id
        frames = []
        for index, person in enumerate(people):
            view = NotificationView(
                id=10 * shared_id + index,
                event_notification_id=shared_id,
                event_type=event_type,
                reservation_id=shared_id,
                title="Nuova prenotazione ricevuta",
                body=f"Prenotazione {shared_id}",
                properties=properties,
                shared=is_shared,
                actions=ACTIONS if is_shared else [],
                is_read=False,
                created_at=datetime.now(UTC) - waited,
            )
            self.inboxes.setdefault(person, {})[view.id] = view
            frames.append(addressed(NotificationFrame(**view.model_dump()), [person]))
        return frames

    def add_table(self, at: datetime, name: str, guests: int, **more: Any) -> int:
        table = {
            "id": len(self.tables) + 1,
            "customerName": name,
            "partySize": guests,
            "slotTime": at.astimezone(ROME).isoformat(),
            "timezone": ROME.key,
            "status": "ACCEPTED",
            "note": None,
            "customerPhone": "+393330000005",
            "visits": 0,
            "noShows": 0,
            "version": 2,
        }
        self.tables[len(self.tables) + 1] = table | more
        return len(self.tables)

    def serve(self, table_id: int, status: str) -> list[AddressedFrame]:
        """Change the status of a table and return the frames."""
        self.tables[table_id]["status"] = status
        return [addressed(ReservationFrame(reservation_id=table_id, status=status, version=3), list(self.inboxes))]

    def ids(self, person: str) -> list[int]:
        return sorted(self.inboxes.get(person, {}), reverse=True)

    def unread(self, person: str) -> int:
        return sum(not view.is_read for view in self.inboxes.get(person, {}).values())

    def open(self, person: str) -> list[int]:
        inbox = self.inboxes.get(person, {})
        return [each for each in self.ids(person) if inbox[each].actions and not inbox[each].hidden]

    def resolve(
        self, view: NotificationView, user_id: int, action: str, *, by_guest: str | None = None, **outcome: Any
    ) -> list[AddressedFrame]:
        """Answer a request. `outcome` are the changed fields of the reservation."""
        values = {
            "event_type": EVENTS[action],
            "slot_time": view.properties.get("slotTime", datetime.now(UTC)),
            "party_size": view.properties.get("partySize", 1),
        }
        resolution = Resolution(
            action=action,
            actor_type="CUSTOMER" if by_guest else "RESTAURANT_USER",
            actor_id=user_id,
            actor_name=by_guest or NAMES[user_id],
            at=datetime.now(UTC),
            outcome=Outcome.model_validate(values | outcome),
        )
        people = self._change(view.event_notification_id, resolution=resolution, actions=[])
        frame = ResolvedFrame(event_notification_id=view.event_notification_id, **resolution.model_dump())
        return [addressed(frame, people)]

    def undo(self, reservation_id: int, user_id: int) -> list[AddressedFrame]:
        """Open a request again that was decided."""
        views = {
            person: view
            for person, inbox in self.inboxes.items()
            for view in inbox.values()
            if view.reservation_id == reservation_id
        }
        actor = {"userType": "RESTAURANT_USER", "userId": user_id, "name": NAMES[user_id]}
        properties = next(iter(views.values())).properties | {"actor": actor}
        return self.add(*views, event_type="RESERVATION_DECISION_UNDONE", **properties)

    def hide(self, view: NotificationView, person: str) -> list[AddressedFrame]:
        changes = {"hidden": True, "actions": [each for each in view.actions if each != "DISMISSED"]}
        self.inboxes[person][view.id] = view.model_copy(update=changes)
        return [addressed(DismissedFrame(notification_id=view.id, at=datetime.now(UTC)), [person])]

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

        def person_of(request: Request) -> str:
            try:
                bearer = request.headers["Authorization"].removeprefix("Bearer ")
                claims = jwt.decode(bearer, KEY.public_pem, ["ES256"], audience=AUDIENCE)
            except (KeyError, jwt.PyJWTError):
                raise HTTPException(401) from None
            return f"{claims['user_type']}:{claims['sub']}"

        def find(request: Request, notification_id: int) -> tuple[NotificationView, int]:
            person = person_of(request)
            return self.inboxes[person][notification_id], int(person.rpartition(":")[2])

        @app.middleware("http")
        async def fail_or_wait(request: Request, call_next: Any) -> Any:
            await self.is_answering.wait()
            if self.status is not None:
                return JSONResponse({"status": self.status, "title": "Test"}, self.status)
            return await call_next(request)

        app.add_middleware(
            CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["Authorization", "Content-Type"]
        )

        @app.get("/me")
        async def me(request: Request) -> dict[str, Any]:
            user_type, _, user_id = person_of(request).partition(":")
            restaurant = {"id": 10, "name": "Trattoria del Porto", "timezone": "Europe/Rome"}
            is_staff = user_type == "RESTAURANT_USER"
            return {
                "userType": user_type,
                "userId": int(user_id),
                "name": f"{NAMES.get(int(user_id), 'Anna')} Ferri",
                "role": "STAFF" if is_staff else None,
                "locale": self.locale,
                "timezone": "Europe/Rome",
                "restaurant": restaurant if is_staff else None,
            }

        @app.get("/restaurant/reservation")
        async def tables(date: str, q: str = "") -> dict[str, Any]:
            found = [
                table
                for table in self.tables.values()
                if table["slotTime"].startswith(date) and q.lower() in table["customerName"].lower()
            ]
            return {"items": sorted(found, key=lambda table: table["slotTime"]), "nextCursor": None}

        @app.post("/restaurant/reservation/{table_id}/{act}")
        async def serve_table(request: Request, table_id: int, act: str) -> dict[str, Any]:
            if act == "undo" and table_id not in self.tables:
                await publish(self._broker, self.undo(table_id, int(person_of(request).rpartition(":")[2])))
                return {"id": table_id, "status": "NOT_ACCEPTED"}
            if act == "cancel":
                self.reasons.append((await request.json())["reason"])
            await publish(self._broker, self.serve(table_id, STATUSES[act]))
            return self.tables[table_id]

        @app.get("/notifications")
        async def page(
            request: Request,
            limit: int = 20,
            cursor: int = 2**62,
            is_open: Annotated[bool, Query(alias="open")] = False,
        ) -> dict[str, Any]:
            person = person_of(request)
            inbox = self.inboxes.get(person, {})
            ids = [each for each in (self.open(person) if is_open else self.ids(person)) if each < cursor]
            items = [inbox[each].model_dump(mode="json", by_alias=True) for each in ids[:limit]]
            return {"items": items, "nextCursor": str(ids[limit - 1]) if len(ids) > limit else None}

        @app.get("/notifications/unread-count")
        async def unread(request: Request) -> dict[str, int]:
            person = person_of(request)
            return {"unread": self.unread(person), "open": len(self.open(person))}

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
            if body["actionType"] == "DISMISSED":
                await publish(self._broker, self.hide(view, person_of(request)))
                return find(request, notification_id)[0].model_dump(mode="json", by_alias=True)
            if view.resolution is not None:
                handled_by = view.resolution.model_dump(mode="json", by_alias=True)
                return JSONResponse({"status": 409, "title": "Handled", "handledBy": handled_by}, 409)
            outcome: dict[str, Any] = {}
            if "proposedTime" in body:
                self.proposed_times.append(body["proposedTime"])
                outcome["proposed_time"] = datetime.fromisoformat(body["proposedTime"]).replace(tzinfo=ROME)
            await publish(self._broker, self.resolve(view, user_id, body["actionType"], **outcome))
            answer = find(request, notification_id)[0].model_dump(mode="json", by_alias=True)
            return answer | {"undoSeconds": self.undo_seconds}

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
