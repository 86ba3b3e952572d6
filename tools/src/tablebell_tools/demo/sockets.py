"""The browsers of the demo: one open WebSocket per person."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tablebell_local.failure import Failure
from tablebell_tools import tokens


@dataclass(frozen=True)
class Arrival:
    person: str
    frame: dict[str, Any]
    at: datetime


@dataclass
class Sockets:
    arrivals: list[Arrival] = field(default_factory=list)

    def of(self, kind: str, reservation_event: str | None = None) -> list[Arrival]:
        """The first frame of a kind that each person got."""
        found: dict[str, Arrival] = {}
        for arrival in self.arrivals:
            matches = reservation_event is None or arrival.frame.get("eventType") == reservation_event
            if arrival.frame.get("type") == kind and matches:
                found.setdefault(arrival.person, arrival)
        return list(found.values())

    async def listen(self, person: str, socket: ClientConnection) -> None:
        async for text in socket:
            self.arrivals.append(Arrival(person, json.loads(text), datetime.now(UTC)))


@asynccontextmanager
async def open_sockets(url: str, secret: str, people: Iterable[str]) -> AsyncIterator[Sockets]:
    sockets = Sockets()
    async with AsyncExitStack() as stack:
        listening = []
        for person in people:
            socket = await stack.enter_async_context(connect(f"{url}/ws", open_timeout=5))
            await socket.send(json.dumps({"type": "auth", "token": tokens.issue(person, secret)}))
            answer = json.loads(await asyncio.wait_for(socket.recv(), 5))
            if answer.get("type") != "ready":
                raise Failure(f"the gateway did not let {person} in: {answer}")
            listening.append(asyncio.create_task(sockets.listen(person, socket)))
        try:
            yield sockets
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
