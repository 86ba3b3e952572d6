"""Browsers: each keeps what its person was told, by live frames and by the inbox, and reconnects when it is cut off.

A browser reads the inbox when it has connected and when its gateway says that frames flow again, and at no other time.
So what it holds in the end shows whether a frame was lost while it had every reason to trust its connection.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from chaos.api_client import ApiClient, NoAnswer
from tablebell_tools import tokens

PAUSE = 0.3


class Client:
    def __init__(self, person: str, gateways: Sequence[str], api: ApiClient, secret: str) -> None:
        self.person = person
        self.frames = 0
        self.held: dict[int, bool] = {}
        """By the notification's id: whether somebody has handled it."""
        self.framed: set[int] = set()
        self._ids: dict[int, set[int]] = {}
        self._resolved: set[int] = set()
        self._gateways = itertools.cycle(gateways)
        self._door = api
        self._secret = secret
        self._stale = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stay_connected())
            tasks.create_task(self._keep_up())

    async def _stay_connected(self) -> None:
        for gateway in self._gateways:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException):
                async with connect(f"{gateway}/ws", open_timeout=5, close_timeout=1) as socket:
                    await self._listen(socket)
            await asyncio.sleep(PAUSE)

    async def _listen(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps({"type": "auth", "token": tokens.issue(self.person, self._secret)}))
        async for text in socket:
            self._take(json.loads(text))

    def _take(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "ready":
                self._stale.set()
            case "status":
                if frame["live"]:
                    self._stale.set()
            case "notification":
                self.frames += 1
                self.framed.add(frame["id"])
                self._hold(frame)
            case "resolved":
                self._resolve(frame["eventNotificationId"])
            case _:  # what was read is of no concern here
                pass

    async def _keep_up(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                for item in await self._door.inbox(self.person):
                    self._hold(item)
            except NoAnswer:
                self._stale.set()

    def _hold(self, item: dict[str, Any]) -> None:
        """An answer may be older than a frame that overtook it, and a resolution is never taken back."""
        event = item["eventNotificationId"]
        self._ids.setdefault(event, set()).add(item["id"])
        is_resolved = item["shared"] and item["resolution"] is not None
        self.held[item["id"]] = self.held.get(item["id"], False) or is_resolved or event in self._resolved

    def _resolve(self, event: int) -> None:
        self._resolved.add(event)
        for identity in self._ids.get(event, ()):
            self.held[identity] = True


@asynccontextmanager
async def open_clients(
    people: Sequence[str], gateways: Sequence[str], api: ApiClient, secret: str
) -> AsyncIterator[list[Client]]:
    """Half of them begin with one gateway, half with the other."""
    clients = [
        Client(person, [*gateways[number % 2 :], *gateways[: number % 2]], api, secret)
        for number, person in enumerate(people)
    ]
    running = [asyncio.create_task(client.run(), name=f"client {client.person}") for client in clients]
    try:
        yield clients
    finally:
        for task in running:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
