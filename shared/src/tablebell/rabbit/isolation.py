"""Isolates the messages of a batch that cannot be handled, so that the others are.

If the handler of a batch fails, the batch is handled again message by message. A message that fails alone is poison.
Only an error of the message counts: invalid content, or data that the database refuses (`DATA_ERRORS`). Any other error
of the database is an outage. An unexpected exception makes one message poison too. After several in a row the service
itself is assumed to be faulty, which is an outage: a faulty release must not move a whole queue to the dead queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import ValidationError

from tablebell import tracing
from tablebell.outage import DATA_ERRORS, describe, is_data_error, raise_if_outage
from tablebell.rabbit.received_message import Handler, HandlingResult, Poison, ReceivedMessage

log = structlog.get_logger(__name__)

UNEXPECTED_LIMIT = 10


class Interrupted(ConnectionError):
    """The handler fails for a reason other than the messages: an outage."""


@dataclass(slots=True)
class Isolation:
    queue: str
    handler: Handler
    unexpected: int = 0
    """How many messages in a row failed with an unexpected exception."""

    async def handle(self, batch: Sequence[ReceivedMessage]) -> list[tuple[ReceivedMessage, Poison]]:
        """Returns the poison messages; the others have been handled. Raises an outage, or Interrupted."""
        try:
            with tracing.handling(self.queue, [message.headers for message in batch]) as headers:
                results = await self.handler(batch if headers is None else _with_headers(batch, headers))
        except Exception as error:
            raise_if_outage(error, DATA_ERRORS)
            log.exception("batch_failed", queue=self.queue, messages=len(batch))
            if len(batch) == 1:
                return [(batch[0], self._poison(error))]
        else:
            return self._poison_of(batch, results)
        return [poisoned for message in batch for poisoned in await self.handle([message])]

    def _poison_of(
        self, batch: Sequence[ReceivedMessage], results: Sequence[HandlingResult]
    ) -> list[tuple[ReceivedMessage, Poison]]:
        pairs = zip(batch, results, strict=True)
        poisoned = [(message, result) for message, result in pairs if isinstance(result, Poison)]
        if len(poisoned) < len(batch):
            self.unexpected = 0
        return poisoned

    def _poison(self, error: Exception) -> Poison:
        if not isinstance(error, ValidationError) and not is_data_error(error):
            if self.unexpected >= UNEXPECTED_LIMIT:
                raise Interrupted(f"{self.unexpected} messages in a row failed, now by {describe(error)}") from error
            self.unexpected += 1
        return Poison(describe(error))


def _with_headers(batch: Sequence[ReceivedMessage], headers: Sequence[Mapping[str, Any]]) -> list[ReceivedMessage]:
    return [replace(message, headers=own) for message, own in zip(batch, headers, strict=True)]
