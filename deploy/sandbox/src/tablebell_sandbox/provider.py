"""The base of the HTTP providers: applies active faults to a valid message, stores it, and responds."""

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Drop, Fault, Hang, HttpStatus
from tablebell_sandbox.http_server import NoResponse, wait_for_disconnect
from tablebell_sandbox.message import Content
from tablebell_sandbox.store import Store

logger = logging.getLogger(__name__)


class Provider(ABC):
    channel: Channel

    def __init__(self, store: Store, active_faults: ActiveFaults) -> None:
        self._store = store
        self._active_faults = active_faults

    @abstractmethod
    def fault_response(self, fault: Fault, to: str) -> Response:
        """The fault as an error response of this provider."""

    def refuse(self, response: Response) -> Response:
        self._store.refuse(self.channel)
        return response

    async def respond(self, request: Request, to: str, key: str, content: Content, accepted: Response) -> Response:
        """Stores the message before a delay: a client's timeout does not undo it."""
        effect = self._active_faults.take(self.channel, (to,))
        fault = effect.fault
        if fault is None or (isinstance(fault, (Drop, HttpStatus)) and fault.accept):
            record = self._store.accept(self.channel, (to,), key, content)
            logger.debug("message_accepted channel=%s sequence=%d to=%s", self.channel, record.sequence, to)
        else:
            self._store.refuse(self.channel)
        if effect.delay:
            await _pause(request, effect.delay)
        if fault is None:
            return accepted
        if isinstance(fault, Hang):
            await wait_for_disconnect(request.receive)
        return NoResponse() if isinstance(fault, (Drop, Hang)) else self.fault_response(fault, to)


async def _pause(request: Request, seconds: float) -> None:
    """Ends early if the client disconnects."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await wait_for_disconnect(request.receive)


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The received headers without the secret, so that the page can be shared."""
    shown = dict(headers)
    if "authorization" in shown:
        shown["authorization"] = shown["authorization"].partition(" ")[0] + " (hidden)"
    return shown
