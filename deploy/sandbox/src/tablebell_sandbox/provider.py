"""What the three HTTP providers have in common: a valid message meets the faults, is kept, and gets its answer."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.fault_board import FaultBoard
from tablebell_sandbox.faults import Drop, Fault, Hang, HttpStatus
from tablebell_sandbox.http_server import NoResponse, wait_for_disconnect
from tablebell_sandbox.message import Content
from tablebell_sandbox.store import Store

logger = logging.getLogger(__name__)


class Provider(ABC):
    channel: Channel

    def __init__(self, store: Store, board: FaultBoard) -> None:
        self._store = store
        self._board = board

    @abstractmethod
    def fault_response(self, fault: Fault, to: str) -> Response:
        """The fault in the words of this provider."""

    def refuse(self, response: Response) -> Response:
        self._store.refuse(self.channel)
        return response

    async def settle(self, request: Request, to: str, key: str, content: Content, accepted: Response) -> Response:
        """The message is kept before a delay: a client that loses patience does not undo it."""
        verdict = self._board.take(self.channel, (to,))
        fault = verdict.fault
        if fault is None or (isinstance(fault, (Drop, HttpStatus)) and fault.accept):
            record = self._store.accept(self.channel, (to,), key, content)
            logger.debug("message_accepted channel=%s sequence=%d to=%s", self.channel, record.sequence, to)
        else:
            self._store.refuse(self.channel)
        if verdict.delay:
            await _pause(request, verdict.delay)
        if fault is None:
            return accepted
        if isinstance(fault, Hang):
            await wait_for_disconnect(request.receive)
        return NoResponse() if isinstance(fault, (Drop, Hang)) else self.fault_response(fault, to)


async def _pause(request: Request, seconds: float) -> None:
    """Ends early when the client leaves or the connection is cut."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait_for_disconnect(request.receive)


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """As received, without the secret: the page must be safe to show around."""
    shown = dict(headers)
    if "authorization" in shown:
        shown["authorization"] = shown["authorization"].partition(" ")[0] + " (hidden)"
    return shown
