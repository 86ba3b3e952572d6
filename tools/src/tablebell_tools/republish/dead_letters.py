"""Moves messages of `event-stream.dead` back to their original queues.

A message is acked after the broker has confirmed its copy. After a kill in between it is in both queues, and the
listener skips the duplicate. Messages that stay are requeued when the channel closes. RabbitMQ 4 drops a message of a
quorum queue after 20 requeues, so a message that comes close to the limit is published again to the end of the queue.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from tablebell.rabbit import Broker, Confirmed, OutgoingMessage, Publisher
from tablebell.topology import DEAD_QUEUE, EVENT_QUEUES, declare_events
from tablebell_tools.republish.selection import RepublishResult, Selection

BATCH = 200
MAX_REQUEUES = 10
"""A message that was requeued more often is published again to the dead queue."""
ORIGIN, REASON = "x-dead-queue", "x-dead-reason"
ADDED = ("x-dead-", "x-delivery-count", "x-acquired-count")
"""Prefixes of the headers that the message did not have when it was published."""
ANSWER_SECONDS = 10.0


async def move_dead_letters(
    broker: Broker, selection: Selection, *, dry_run: bool, progress: Callable[[RepublishResult], None]
) -> RepublishResult:
    """Handles as many messages as the queue has at the start, so a message that dies again is not moved in a loop."""
    result = RepublishResult()
    publisher = Publisher(broker, declare_events)
    channel = await broker.open_channel(confirms=False, declare=declare_events, wait=10.0)
    try:
        queue = await channel.get_queue(DEAD_QUEUE)
        remaining = queue.declaration_result.message_count or 0
        while remaining > 0 and (batch := await _take(queue, min(BATCH, remaining))):
            remaining -= len(batch)
            chosen = [message for message in batch if _matches(message, selection)]
            if dry_run:
                for message in chosen:
                    _count(message, result)
                chosen = []
            await _move(publisher, chosen, result)
            await _renew(publisher, [message for message in batch if _is_near_requeue_limit(message)])
            progress(result)
    finally:
        await publisher.close()
        await channel.close()
    return result


async def _take(queue: AbstractQueue, limit: int) -> list[AbstractIncomingMessage]:
    batch: list[AbstractIncomingMessage] = []
    while len(batch) < limit and (message := await queue.get(fail=False, timeout=ANSWER_SECONDS)) is not None:
        batch.append(message)
    return batch


async def _move(publisher: Publisher, messages: Sequence[AbstractIncomingMessage], result: RepublishResult) -> None:
    known = [message for message in messages if _has_known_origin(message, result)]
    copies = [_copy(message, str(message.headers[ORIGIN])) for message in known]
    for message, published in zip(known, await publisher.publish_all(copies), strict=True):
        if isinstance(published, Confirmed):
            await message.ack()
            result.add(_example(message))
        else:
            result.skipped[published.reason] += 1


async def _renew(publisher: Publisher, messages: Sequence[AbstractIncomingMessage]) -> None:
    copies = [_copy(message, DEAD_QUEUE, still_dead=True) for message in messages]
    for message, published in zip(messages, await publisher.publish_all(copies), strict=True):
        if isinstance(published, Confirmed):
            await message.ack()


def _matches(message: AbstractIncomingMessage, selection: Selection) -> bool:
    return (
        (selection.event is None or message.message_id == str(selection.event))
        and (selection.type is None or message.type == selection.type)
        and (selection.error is None or selection.error in str(message.headers.get(REASON, "")))
    )


def _count(message: AbstractIncomingMessage, result: RepublishResult) -> None:
    if _has_known_origin(message, result):
        result.add(_example(message))


def _has_known_origin(message: AbstractIncomingMessage, result: RepublishResult) -> bool:
    """Counts a message without a known origin as skipped."""
    known = message.headers.get(ORIGIN) in EVENT_QUEUES.values()
    if not known:
        result.skipped[f"its header {ORIGIN} names no queue of a listener"] += 1
    return known


def _example(message: AbstractIncomingMessage) -> str:
    origin, reason = str(message.headers[ORIGIN]), str(message.headers.get(REASON))
    return f"{message.type} ({message.message_id}) to {origin}: {reason}"


def _is_near_requeue_limit(message: AbstractIncomingMessage) -> bool:
    count = message.headers.get("x-delivery-count", 0)
    return not message.processed and isinstance(count, int) and count >= MAX_REQUEUES


def _copy(message: AbstractIncomingMessage, queue: str, *, still_dead: bool = False) -> OutgoingMessage:
    keep = ("x-dead-",) if still_dead else ()
    headers: Mapping[str, Any] = {
        name: value for name, value in message.headers.items() if name.startswith(keep) or not name.startswith(ADDED)
    }
    properties = message.properties
    properties.headers = dict(headers)
    if not still_dead:
        properties.expiration = None  # only dead messages expire
    return OutgoingMessage(exchange="", routing_key=queue, body=message.body, properties=properties)
