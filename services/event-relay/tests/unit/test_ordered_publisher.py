"""The order that OrderedPublisher keeps between batches. The test decides when the broker confirms."""

import asyncio
import time
from collections import defaultdict
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from event_relay.ordered_publisher import BatchResult, OrderedPublisher
from tablebell.outbox import START, Batch
from tablebell.rabbit import Confirmed, OutgoingMessage, PublishOutcome, Rejected, Unreachable
from tablebell.retry import RetryPolicy
from tablebell.testing import eventually

Key = tuple[int, int]


class FakePublisher:
    """Answers a publish when the test says so."""

    def __init__(self) -> None:
        self.published: list[Key] = []
        self._answers: dict[Key, asyncio.Future[PublishOutcome]] = defaultdict(asyncio.Future)

    async def publish(self, message: OutgoingMessage) -> PublishOutcome:
        headers = message.properties.headers or {}
        key = (int(str(headers["aggregate_id"])), int(str(headers["aggregate_version"])))
        self.published.append(key)
        return await asyncio.shield(self._answers[key])

    def answer(self, aggregate: int, version: int, outcome: PublishOutcome) -> None:
        self._answers[aggregate, version].set_result(outcome)

    def fail(self, aggregate: int, version: int, error: Exception) -> None:
        self._answers[aggregate, version].set_exception(error)


@pytest.fixture
def broker() -> FakePublisher:
    return FakePublisher()


@pytest.fixture
def publisher(broker: FakePublisher) -> OrderedPublisher:
    return OrderedPublisher(broker, RetryPolicy.exponential(5), 5.0)  # type: ignore[arg-type]


def row(aggregate: int, version: int):
    return {
        "id": 100 * aggregate + version,
        "event_id": uuid4(),
        "event_type": "RESERVATION_REQUESTED",
        "aggregate_type": "reservation",
        "aggregate_id": aggregate,
        "aggregate_version": version,
        "payload": "{}",
        "headers": {},
        "created_at": datetime.now(UTC),
        "retry_count": 0,
    }


def publish(
    publisher: OrderedPublisher, *rows: object, claimed_at: float | None = None, token: UUID | None = None
) -> asyncio.Task[BatchResult]:
    batch = Batch(token or publisher.claim_token, rows, START, more=False)  # type: ignore[arg-type]
    return asyncio.create_task(publisher.publish_batch(batch, claimed_at or time.monotonic()))


async def test_a_message_that_the_client_library_cannot_encode_fails_alone(
    publisher: OrderedPublisher, broker: FakePublisher
) -> None:
    publishing = publish(publisher, row(1, 1), row(1, 2), row(2, 1))
    await eventually(lambda: len(broker.published) == 2)
    broker.fail(1, 1, ValueError("no such type"))
    broker.answer(2, 1, Confirmed())
    result = await publishing
    assert result.confirmed == [201]
    (failure,) = result.failed
    assert (failure.id, failure.error) == (101, "unpublishable: ValueError: no such type")
    assert [failure.id for failure in result.released] == [102]


async def test_only_a_successor_in_the_next_batch_waits_for_the_confirm(
    publisher: OrderedPublisher, broker: FakePublisher
) -> None:
    first = publish(publisher, row(1, 1))
    second = publish(publisher, row(1, 2), row(2, 1))
    await eventually(lambda: broker.published == [(1, 1), (2, 1)])
    broker.answer(1, 1, Confirmed())
    await eventually(lambda: broker.published[2:] == [(1, 2)])
    broker.answer(1, 2, Confirmed())
    broker.answer(2, 1, Confirmed())
    assert (await first).confirmed == [101]
    assert sorted((await second).confirmed) == [102, 201]


async def test_a_batch_may_finish_before_an_earlier_one(publisher: OrderedPublisher, broker: FakePublisher) -> None:
    first = publish(publisher, row(1, 1), row(2, 1))
    second = publish(publisher, row(1, 2))
    broker.answer(1, 1, Confirmed())
    broker.answer(1, 2, Confirmed())
    assert (await second).confirmed == [102]
    third = publish(publisher, row(2, 2))
    await asyncio.sleep(0.01)
    assert (2, 2) not in broker.published, "it waits for version 1 in the first batch"
    broker.answer(2, 1, Confirmed())
    broker.answer(2, 2, Confirmed())
    assert sorted((await first).confirmed) == [101, 201]
    assert (await third).confirmed == [202]
    assert not publisher._lanes


@pytest.mark.parametrize("outcome", [Rejected("unroutable"), Unreachable("away")])
async def test_successors_of_a_failure_in_an_earlier_batch_are_released_unpublished(
    publisher: OrderedPublisher, broker: FakePublisher, outcome: PublishOutcome
) -> None:
    first = publish(publisher, row(1, 1))
    second = publish(publisher, row(1, 2), row(1, 3))
    third = publish(publisher, row(1, 4))
    await eventually(lambda: broker.published == [(1, 1)])
    broker.answer(1, 1, outcome)
    await first
    assert [failure.id for failure in (await second).released] == [102, 103]
    assert [failure.id for failure in (await third).released] == [104]
    assert broker.published == [(1, 1)]


async def test_successors_of_a_batch_that_timed_out_are_released_unpublished(
    publisher: OrderedPublisher, broker: FakePublisher
) -> None:
    first = publish(publisher, row(1, 1), claimed_at=time.monotonic() - 4.9)
    second = publish(publisher, row(1, 2))
    token = publisher.claim_token
    assert "no confirm" in ((await first).outage or "")
    assert [failure.id for failure in (await second).released] == [102]
    assert broker.published == [(1, 1)]
    assert publisher.claim_token != token


async def test_a_batch_whose_timeout_has_passed_before_it_begins_is_released_unpublished(
    publisher: OrderedPublisher, broker: FakePublisher
) -> None:
    """The process was stopped between the claim and the publish."""
    result = await publish(publisher, row(1, 1), row(2, 1), claimed_at=time.monotonic() - 60)
    assert sorted(failure.id for failure in result.released) == [101, 201]
    assert broker.published == []


async def test_a_batch_that_times_out_while_the_process_is_stopped_publishes_no_more(
    publisher: OrderedPublisher, broker: FakePublisher
) -> None:
    publishing = publish(publisher, row(1, 1), row(1, 2), claimed_at=time.monotonic() - 4.9)
    await eventually(lambda: broker.published == [(1, 1)])
    broker.answer(1, 1, Confirmed())
    time.sleep(0.2)  # noqa: ASYNC251 - blocks the whole process; the confirm arrives meanwhile
    result = await publishing
    assert broker.published == [(1, 1)]
    assert {failure.id for failure in result.released} >= {102}


@pytest.mark.parametrize("outcome", [Rejected("unroutable"), Unreachable("away")])
async def test_successors_claimed_before_a_failure_was_known_are_released_unpublished(
    publisher: OrderedPublisher, broker: FakePublisher, outcome: PublishOutcome
) -> None:
    """Version 1 was in flight at the time of the claim, and has no lane any more when the batch is published."""
    claimed_with = publisher.claim_token
    first = publish(publisher, row(1, 1), row(2, 1))
    second = publish(publisher, row(1, 2))
    await eventually(lambda: broker.published == [(1, 1), (2, 1)])
    broker.answer(1, 1, outcome)
    assert [failure.id for failure in (await second).released] == [102], "the first batch is not recorded yet"
    third = await publish(publisher, row(1, 3), row(3, 1), token=claimed_with)
    assert [failure.id for failure in third.released] == [103, 301]
    broker.answer(2, 1, Confirmed())
    assert (await first).confirmed == [201]
    assert broker.published == [(1, 1), (2, 1)]


async def test_a_finished_lane_is_forgotten(publisher: OrderedPublisher, broker: FakePublisher) -> None:
    broker.answer(1, 1, Rejected("unroutable"))
    broker.answer(1, 2, Confirmed())
    assert (await publish(publisher, row(1, 1))).failed
    assert (await publish(publisher, row(1, 2))).confirmed == [102], "the claim decides what is blocked"
    assert not publisher._lanes
