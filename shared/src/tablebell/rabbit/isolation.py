"""Finds the messages of a batch that cannot be handled, so that the others can.

A batch whose handler fails is handled again message by message, and a message that fails alone is poison. Only an error
of the message itself counts: its content is not valid, or the database refuses its data (SQLSTATE classes 22 and 23).
Any other error of the database is an outage. An error that nobody foresaw makes one message poison; after several in a
row the fault is taken to be in this service, and that is an outage too: a faulty release must not empty a queue.
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

UNFORESEEN_LIMIT = 10


class Interrupted(ConnectionError):
    """The handler fails, and the messages are not to blame."""


@dataclass(slots=True)
class Isolation:
    queue: str
    handler: Handler
    unforeseen: int = 0
    """Messages in a row that failed by an error that nobody foresaw."""

    async def handle(self, batch: Sequence[ReceivedMessage]) -> list[tuple[ReceivedMessage, Poison]]:
        """What of the batch is poison; the rest has been handled. Raises an outage, or Interrupted."""
        try:
            with tracing.handling(self.queue, [delivery.headers for delivery in batch]) as headers:
                verdicts = await self.handler(batch if headers is None else _carrying(batch, headers))
        except Exception as error:
            raise_if_outage(error, DATA_ERRORS)
            log.exception("batch_failed", queue=self.queue, messages=len(batch))
            if len(batch) == 1:
                return [(batch[0], self._poison(error))]
        else:
            return self._sort_out(batch, verdicts)
        return [poisoned for delivery in batch for poisoned in await self.handle([delivery])]

    def _sort_out(
        self, batch: Sequence[ReceivedMessage], verdicts: Sequence[HandlingResult]
    ) -> list[tuple[ReceivedMessage, Poison]]:
        judged = zip(batch, verdicts, strict=True)
        poisoned = [(delivery, verdict) for delivery, verdict in judged if isinstance(verdict, Poison)]
        if len(poisoned) < len(batch):
            self.unforeseen = 0
        return poisoned

    def _poison(self, error: Exception) -> Poison:
        if not isinstance(error, ValidationError) and not is_data_error(error):
            if self.unforeseen >= UNFORESEEN_LIMIT:
                raise Interrupted(f"{self.unforeseen} messages in a row failed, now by {describe(error)}") from error
            self.unforeseen += 1
        return Poison(describe(error))


def _carrying(batch: Sequence[ReceivedMessage], headers: Sequence[Mapping[str, Any]]) -> list[ReceivedMessage]:
    return [replace(delivery, headers=own) for delivery, own in zip(batch, headers, strict=True)]
