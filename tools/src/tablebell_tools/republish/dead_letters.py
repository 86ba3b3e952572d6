"""Messages of `event-stream.dead` go back to the queue that they came from.

A message is acked after the broker has confirmed its copy: killed in between, it is in both queues, and the listener
skips what it has had. Messages that stay are given back when the channel is closed. RabbitMQ 4 drops a message of a
quorum queue that has been given back 20 times, so one that comes close to that is written anew at the end of the queue.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aio_pika.abc import AbstractIncomingMessage, AbstractQueue

from tablebell.rabbit import Broker, Confirmed, OutgoingMessage, Publisher
from tablebell.topology import DEAD_QUEUE, EVENT_QUEUES, declare_events
from tablebell_tools.republish.selection import Outcome, Selection

BATCH = 200
OFTEN = 10
"""How many times a message may have been given back before it is written anew."""
ORIGIN, REASON = "x-dead-queue", "x-dead-reason"
ADDED = ("x-dead-", "x-delivery-count", "x-acquired-count")
"""How the names of the headers begin that the message did not have when it was published."""
ANSWER_SECONDS = 10.0


async def move_dead_letters(
    broker: Broker, selection: Selection, *, dry_run: bool, progress: Callable[[Outcome], None]
) -> Outcome:
    """Looks at as many messages as there are at the start: one that dies again is not moved in a circle."""
    outcome = Outcome()
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
                    _count(message, outcome)
                chosen = []
            await _move(publisher, chosen, outcome)
            await _write_anew(publisher, [message for message in batch if _is_often_given_back(message)])
            progress(outcome)
    finally:
        await publisher.close()
        await channel.close()
    return outcome


async def _take(queue: AbstractQueue, limit: int) -> list[AbstractIncomingMessage]:
    batch: list[AbstractIncomingMessage] = []
    while len(batch) < limit and (message := await queue.get(fail=False, timeout=ANSWER_SECONDS)) is not None:
        batch.append(message)
    return batch


async def _move(publisher: Publisher, messages: Sequence[AbstractIncomingMessage], outcome: Outcome) -> None:
    known = [message for message in messages if _count_unknown(message, outcome)]
    copies = [_copy(message, str(message.headers[ORIGIN]), keep=()) for message in known]
    for message, published in zip(known, await publisher.publish_all(copies), strict=True):
        if isinstance(published, Confirmed):
            await message.ack()
            outcome.add(_example(message))
        else:
            outcome.kept[published.reason] += 1


async def _write_anew(publisher: Publisher, messages: Sequence[AbstractIncomingMessage]) -> None:
    copies = [_copy(message, DEAD_QUEUE, keep=("x-dead-",)) for message in messages]
    for message, published in zip(messages, await publisher.publish_all(copies), strict=True):
        if isinstance(published, Confirmed):
            await message.ack()


def _matches(message: AbstractIncomingMessage, selection: Selection) -> bool:
    return (
        (selection.event is None or message.message_id == str(selection.event))
        and (selection.type is None or message.type == selection.type)
        and (selection.error is None or selection.error in str(message.headers.get(REASON, "")))
    )


def _count(message: AbstractIncomingMessage, outcome: Outcome) -> None:
    if _count_unknown(message, outcome):
        outcome.add(_example(message))


def _count_unknown(message: AbstractIncomingMessage, outcome: Outcome) -> bool:
    """Whether it is known where the message came from."""
    known = message.headers.get(ORIGIN) in EVENT_QUEUES.values()
    if not known:
        outcome.kept[f"its header {ORIGIN} names no queue of a listener"] += 1
    return known


def _example(message: AbstractIncomingMessage) -> str:
    origin, reason = str(message.headers[ORIGIN]), str(message.headers.get(REASON))
    return f"{message.type} ({message.message_id}) to {origin}: {reason}"


def _is_often_given_back(message: AbstractIncomingMessage) -> bool:
    count = message.headers.get("x-delivery-count", 0)
    return not message.processed and isinstance(count, int) and count >= OFTEN


def _copy(message: AbstractIncomingMessage, queue: str, *, keep: tuple[str, ...]) -> OutgoingMessage:
    headers: Mapping[str, Any] = {
        name: value for name, value in message.headers.items() if name.startswith(keep) or not name.startswith(ADDED)
    }
    properties = message.properties
    properties.headers = dict(headers)
    return OutgoingMessage(exchange="", routing_key=queue, body=message.body, properties=properties)
