"""One open WebSocket per person, as a browser has it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tablebell_local.errors import CommandError
from tablebell_tools.tokens import TokenIssuer


@dataclass(frozen=True)
class ReceivedFrame:
    person: str
    content: dict[str, Any]
    at: datetime


@dataclass
class Sockets:
    received: list[ReceivedFrame] = field(default_factory=list)

    def first_of(self, frame_type: str, event_type: str | None = None) -> list[ReceivedFrame]:
        """The first frame of this type that each person received."""
        found: dict[str, ReceivedFrame] = {}
        for frame in self.received:
            matches = event_type is None or frame.content.get("eventType") == event_type
            if frame.content.get("type") == frame_type and matches:
                found.setdefault(frame.person, frame)
        return list(found.values())

    async def listen(self, person: str, socket: ClientConnection) -> None:
        async for text in socket:
            self.received.append(ReceivedFrame(person, json.loads(text), datetime.now(UTC)))


@asynccontextmanager
async def open_sockets(url: str, tokens: TokenIssuer, people: Iterable[str]) -> AsyncIterator[Sockets]:
    sockets = Sockets()
    async with AsyncExitStack() as stack:
        listening = []
        for person in people:
            socket = await stack.enter_async_context(connect(f"{url}/ws", open_timeout=5))
            await socket.send(json.dumps({"type": "auth", "token": tokens.issue(person)}))
            answer = json.loads(await asyncio.wait_for(socket.recv(), 5))
            if answer.get("type") != "ready":
                raise CommandError(f"the gateway refused {person}: {answer}")
            listening.append(asyncio.create_task(sockets.listen(person, socket)))
        try:
            yield sockets
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)
