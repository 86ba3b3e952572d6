"""Simulated browsers. Each keeps the notifications of its person from live frames and the inbox, and reconnects.

A browser reads the inbox only after it has connected and after its gateway reports that frames are live again. So its
final state shows whether a frame was lost while the connection was live.
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
from tablebell_tools.tokens import TokenIssuer

PAUSE = 0.3


class Browser:
    def __init__(self, person: str, gateways: Sequence[str], api: ApiClient, tokens: TokenIssuer) -> None:
        self.person = person
        self.frames = 0
        self.notifications: dict[int, bool] = {}
        """Notification id → whether it was handled."""
        self.framed: set[int] = set()
        self._ids: dict[int, set[int]] = {}
        self._resolved: set[int] = set()
        self._gateways = itertools.cycle(gateways)
        self._api = api
        self._tokens = tokens
        self._stale = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stay_connected())
            tasks.create_task(self._refresh_inbox())

    async def _stay_connected(self) -> None:
        for gateway in self._gateways:
            with contextlib.suppress(OSError, TimeoutError, WebSocketException):
                async with connect(f"{gateway}/ws", open_timeout=5, close_timeout=1) as socket:
                    await self._listen(socket)
            await asyncio.sleep(PAUSE)

    async def _listen(self, socket: ClientConnection) -> None:
        await socket.send(json.dumps({"type": "auth", "token": self._tokens.issue(self.person)}))
        async for text in socket:
            self._handle(json.loads(text))

    def _handle(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "ready":
                self._stale.set()
            case "status":
                if frame["live"]:
                    self._stale.set()
            case "notification":
                self.frames += 1
                self.framed.add(frame["id"])
                self._store(frame)
            case "resolved":
                self._resolve(frame["eventNotificationId"])
            case _:
                pass

    async def _refresh_inbox(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                for item in await self._api.inbox(self.person):
                    self._store(item)
            except NoAnswer:
                self._stale.set()

    def _store(self, item: dict[str, Any]) -> None:
        """An inbox page may be older than a frame, so a resolved notification stays resolved."""
        event = item["eventNotificationId"]
        self._ids.setdefault(event, set()).add(item["id"])
        is_resolved = item["shared"] and item["resolution"] is not None
        self.notifications[item["id"]] = (
            self.notifications.get(item["id"], False) or is_resolved or event in self._resolved
        )

    def _resolve(self, event: int) -> None:
        self._resolved.add(event)
        for identity in self._ids.get(event, ()):
            self.notifications[identity] = True


@asynccontextmanager
async def open_browsers(
    people: Sequence[str], gateways: Sequence[str], api: ApiClient, tokens: TokenIssuer
) -> AsyncIterator[list[Browser]]:
    """Half of them start with one gateway, half with the other."""
    browsers = [
        Browser(person, [*gateways[number % 2 :], *gateways[: number % 2]], api, tokens)
        for number, person in enumerate(people)
    ]
    running = [asyncio.create_task(browser.run(), name=f"browser {browser.person}") for browser in browsers]
    try:
        yield browsers
    finally:
        for task in running:
            task.cancel()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
