"""`make republish DEAD=1` moves dead messages back to their original queues and loses none."""

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractIncomingMessage
from pydantic import SecretStr

from tablebell.people import Audience
from tablebell.rabbit import Broker
from tablebell.testing import eventually
from tablebell.testing.servers import Servers
from tablebell.topology import DEAD_QUEUE, EVENT_QUEUES, declare_events
from tablebell_tools.republish.dead_letters import BATCH, move_dead_letters
from tablebell_tools.republish.selection import RepublishResult, Selection

RESTAURANT, CUSTOMER = EVENT_QUEUES[Audience.RESTAURANT], EVENT_QUEUES[Audience.CUSTOMER]
ALL = Selection(dead=True)


def dead(number: int, queue: str = RESTAURANT, reason: str = "unknown", **headers: Any) -> Message:
    """A message as the consumer publishes it to the dead queue."""
    added = {"x-dead-queue": queue, "x-dead-reason": reason, "x-dead-routing-key": "reservation.requested"}
    return Message(
        str(number).encode(),
        message_id=f"event-{number}",
        type="RESERVATION_REQUESTED",
        correlation_id="test",
        content_type="application/json",
        delivery_mode=2,
        expiration=3600,
        headers={"aggregate_id": number, "traceparent": "00-x", **added, **headers},
    )


async def bury(broker: Broker, *messages: Message) -> None:
    channel = await broker.open_channel(confirms=True, declare=declare_events)
    await asyncio.gather(*(channel.default_exchange.publish(each, routing_key=DEAD_QUEUE) for each in messages))
    await channel.close()
    await eventually(lambda: holds(broker, DEAD_QUEUE, len(messages)))


async def holds(broker: Broker, queue: str, count: int) -> bool:
    return await length(broker, queue) == count


async def length(broker: Broker, queue: str) -> int:
    channel = await broker.open_channel(confirms=False)
    count = (await channel.get_queue(queue)).declaration_result.message_count
    await channel.close()
    return count or 0


async def take(broker: Broker, queue: str) -> list[AbstractIncomingMessage]:
    """All messages of the queue. A queue with a single active consumer allows no basic.get."""
    channel = await broker.open_channel(confirms=False)
    arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await (await channel.get_queue(queue)).consume(arrived.put, no_ack=True)
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            found.append(await asyncio.wait_for(arrived.get(), timeout=0.5))
    await channel.close()
    return found


async def run(broker: Broker, selection: Selection = ALL, *, dry_run: bool = False) -> RepublishResult:
    return await move_dead_letters(broker, selection, dry_run=dry_run, progress=lambda _: None)


async def test_many_messages_return_to_their_queues_unchanged(broker: Broker) -> None:
    count = 2 * BATCH + 10
    await bury(broker, *(dead(number, CUSTOMER if number % 2 else RESTAURANT) for number in range(count)))
    result = await run(broker)
    assert (result.done, result.skipped, len(result.examples)) == (count, Counter(), 3)
    assert await take(broker, DEAD_QUEUE) == []
    received = await take(broker, RESTAURANT)
    assert [int(each.body) for each in received] == list(range(0, count, 2)), "in their original order"
    assert [int(each.body) for each in await take(broker, CUSTOMER)] == list(range(1, count, 2))
    first = received[0]
    assert (first.message_id, first.type, first.correlation_id) == ("event-0", "RESERVATION_REQUESTED", "test")
    assert first.headers == {"aggregate_id": 0, "traceparent": "00-x"}
    assert (first.delivery_mode, first.content_type) == (2, "application/json")
    assert first.expiration is None, "only dead messages expire"


@pytest.mark.parametrize(
    ("selection", "moved"),
    [
        (Selection(dead=True, error="restaurant 99"), [1]),
        (Selection(dead=True, type="RESERVATION_REQUESTED", error="restaurant"), [1, 2]),
        (Selection(dead=True, type="RESERVATION_ACCEPTED"), []),
    ],
    ids=["reason", "type and reason", "another type"],
)
async def test_messages_that_do_not_match_stay(broker: Broker, selection: Selection, moved: list[int]) -> None:
    await bury(
        broker,
        dead(1, reason="restaurant 99 does not exist"),
        dead(2, reason="restaurant 98 does not exist"),
        dead(3, reason="it is not an event that this version knows"),
    )
    assert (await run(broker, selection)).done == len(moved)
    assert [int(each.body) for each in await take(broker, RESTAURANT)] == moved
    left = [number for number in (1, 2, 3) if number not in moved]
    await eventually(lambda: holds(broker, DEAD_QUEUE, len(left)))
    assert sorted(int(each.body) for each in await take(broker, DEAD_QUEUE)) == left


async def test_a_dry_run_counts_and_moves_nothing(broker: Broker) -> None:
    await bury(broker, dead(1), dead(2, CUSTOMER))
    result = await run(broker, dry_run=True)
    assert result.done == 2
    assert result.examples[0] == "RESERVATION_REQUESTED (event-1) to event-stream.restaurant: unknown"
    await eventually(lambda: holds(broker, DEAD_QUEUE, 2))
    assert await take(broker, RESTAURANT) == await take(broker, CUSTOMER) == []


@pytest.mark.parametrize("queue", ["amq.somewhere", ""])
async def test_a_message_of_unknown_origin_stays_and_is_counted(broker: Broker, queue: str) -> None:
    await bury(broker, dead(1, queue), dead(2))
    result = await run(broker)
    assert result.done == 1
    assert result.skipped == Counter({"its header x-dead-queue names no queue of a listener": 1})
    await eventually(lambda: holds(broker, DEAD_QUEUE, 1))


async def test_repeated_dry_runs_lose_no_message(broker: Broker, amqp_url: SecretStr, servers: Servers) -> None:
    """With the default limit of RabbitMQ 4: a quorum queue drops a message at its 20th requeue."""
    vhost = quote(urlsplit(amqp_url.get_secret_value()).path[1:], safe="")
    async with httpx.AsyncClient(base_url=servers.management_url, timeout=30) as http:
        limit = {"pattern": f"^{DEAD_QUEUE}$", "definition": {"delivery-limit": 20}, "apply-to": "queues"}
        (await http.put(f"/api/policies/{vhost}/limit", json=limit)).raise_for_status()
    await bury(broker, dead(1), dead(2))
    for _ in range(30):
        await run(broker, dry_run=True)
        await eventually(lambda: holds(broker, DEAD_QUEUE, 2))
    assert (await run(broker)).done == 2
    received = await take(broker, RESTAURANT)
    assert {each.message_id for each in received} == {"event-1", "event-2"}
    assert all("x-delivery-count" not in each.headers for each in received)


@pytest.mark.timeout(120)
async def test_a_killed_run_loses_nothing_and_can_be_started_again(broker: Broker, amqp_url: SecretStr) -> None:
    count = 10 * BATCH
    await bury(broker, *(dead(number) for number in range(count)))
    command = [sys.executable, "-m", "tablebell_tools", "republish", "--dead", "--amqp", amqp_url.get_secret_value()]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"so far" in await process.stderr.readline()
    process.kill()
    await process.communicate()
    moved = await length(broker, RESTAURANT)
    assert 0 < moved < count
    received: set[int] = set()

    async def all_are_back() -> bool:
        """Messages that the killed run held are back in the dead queue once the broker has noticed its end."""
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        received.update(int(each.body) for each in await take(broker, RESTAURANT))
        return received == set(range(count)) and await holds(broker, DEAD_QUEUE, 0)

    await eventually(all_are_back, within=60)
