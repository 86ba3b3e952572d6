"""The order that the courier keeps between batches, with a broker that confirms when the test says so."""

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


class Broker:
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
def broker() -> Broker:
    return Broker()


@pytest.fixture
def publisher(broker: Broker) -> OrderedPublisher:
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


def deliver(
    publisher: OrderedPublisher, *rows: object, claimed_at: float | None = None, token: UUID | None = None
) -> asyncio.Task[BatchResult]:
    batch = Batch(token or publisher.claim_token, rows, START, more=False)  # type: ignore[arg-type]
    return asyncio.create_task(publisher.publish_batch(batch, claimed_at or time.monotonic()))


async def test_a_message_that_the_client_library_cannot_encode_fails_alone(
    publisher: OrderedPublisher, broker: Broker
) -> None:
    delivery = deliver(publisher, row(1, 1), row(1, 2), row(2, 1))
    await eventually(lambda: len(broker.published) == 2)
    broker.fail(1, 1, ValueError("no such type"))
    broker.answer(2, 1, Confirmed())
    result = await delivery
    assert result.confirmed == [201]
    (failure,) = result.failed
    assert (failure.id, failure.error) == (101, "unpublishable: ValueError: no such type")
    assert [failure.id for failure in result.released] == [102]


async def test_a_follower_in_the_next_batch_waits_for_the_confirm_and_nobody_else_does(
    publisher: OrderedPublisher, broker: Broker
) -> None:
    first = deliver(publisher, row(1, 1))
    second = deliver(publisher, row(1, 2), row(2, 1))
    await eventually(lambda: broker.published == [(1, 1), (2, 1)])
    broker.answer(1, 1, Confirmed())
    await eventually(lambda: broker.published[2:] == [(1, 2)])
    broker.answer(1, 2, Confirmed())
    broker.answer(2, 1, Confirmed())
    assert (await first).confirmed == [101]
    assert sorted((await second).confirmed) == [102, 201]


async def test_a_batch_may_be_done_before_the_one_before_it(publisher: OrderedPublisher, broker: Broker) -> None:
    first = deliver(publisher, row(1, 1), row(2, 1))
    second = deliver(publisher, row(1, 2))
    broker.answer(1, 1, Confirmed())
    broker.answer(1, 2, Confirmed())
    assert (await second).confirmed == [102]
    third = deliver(publisher, row(2, 2))
    await asyncio.sleep(0.01)
    assert (2, 2) not in broker.published, "it stands behind the first batch's"
    broker.answer(2, 1, Confirmed())
    broker.answer(2, 2, Confirmed())
    assert sorted((await first).confirmed) == [101, 201]
    assert (await third).confirmed == [202]
    assert not publisher._lanes


@pytest.mark.parametrize("outcome", [Rejected("unroutable"), Unreachable("away")])
async def test_what_follows_a_failure_in_the_batch_before_is_put_back_unsent(
    publisher: OrderedPublisher, broker: Broker, outcome: PublishOutcome
) -> None:
    first = deliver(publisher, row(1, 1))
    second = deliver(publisher, row(1, 2), row(1, 3))
    third = deliver(publisher, row(1, 4))
    await eventually(lambda: broker.published == [(1, 1)])
    broker.answer(1, 1, outcome)
    await first
    assert [failure.id for failure in (await second).released] == [102, 103]
    assert [failure.id for failure in (await third).released] == [104]
    assert broker.published == [(1, 1)]


async def test_what_follows_a_batch_that_ran_out_of_time_is_put_back_unsent(
    publisher: OrderedPublisher, broker: Broker
) -> None:
    first = deliver(publisher, row(1, 1), claimed_at=time.monotonic() - 4.9)
    second = deliver(publisher, row(1, 2))
    token = publisher.claim_token
    assert "no confirm" in ((await first).outage or "")
    assert [failure.id for failure in (await second).released] == [102]
    assert broker.published == [(1, 1)]
    assert publisher.claim_token != token


async def test_a_batch_whose_time_was_over_before_it_began_is_put_back_unsent(
    publisher: OrderedPublisher, broker: Broker
) -> None:
    """As after a stop of the whole process between the claim and the delivery."""
    result = await deliver(publisher, row(1, 1), row(2, 1), claimed_at=time.monotonic() - 60)
    assert sorted(failure.id for failure in result.released) == [101, 201]
    assert broker.published == []


async def test_a_batch_whose_time_runs_out_while_the_process_stands_still_goes_no_further(
    publisher: OrderedPublisher, broker: Broker
) -> None:
    delivering = deliver(publisher, row(1, 1), row(1, 2), claimed_at=time.monotonic() - 4.9)
    await eventually(lambda: broker.published == [(1, 1)])
    broker.answer(1, 1, Confirmed())
    time.sleep(0.2)  # noqa: ASYNC251 - the whole process stands still; the confirm has arrived meanwhile
    result = await delivering
    assert broker.published == [(1, 1)]
    assert {failure.id for failure in result.released} >= {102}


@pytest.mark.parametrize("outcome", [Rejected("unroutable"), Unreachable("away")])
async def test_what_was_claimed_behind_what_failed_meanwhile_is_put_back_unsent(
    publisher: OrderedPublisher, broker: Broker, outcome: PublishOutcome
) -> None:
    """Its claim took version 1 for one on its way, and nothing of that is left in the courier when it comes back."""
    claimed_with = publisher.claim_token
    first = deliver(publisher, row(1, 1), row(2, 1))
    second = deliver(publisher, row(1, 2))
    await eventually(lambda: broker.published == [(1, 1), (2, 1)])
    broker.answer(1, 1, outcome)
    assert [failure.id for failure in (await second).released] == [102], "the first batch is not on record yet"
    third = await deliver(publisher, row(1, 3), row(3, 1), token=claimed_with)
    assert [failure.id for failure in third.released] == [103, 301]
    broker.answer(2, 1, Confirmed())
    assert (await first).confirmed == [201]
    assert broker.published == [(1, 1), (2, 1)]


async def test_nothing_is_remembered_of_a_line_that_has_ended(publisher: OrderedPublisher, broker: Broker) -> None:
    broker.answer(1, 1, Rejected("unroutable"))
    broker.answer(1, 2, Confirmed())
    assert (await deliver(publisher, row(1, 1))).failed
    assert (await deliver(publisher, row(1, 2))).confirmed == [102], (
        "what the claim lets through is no longer held back"
    )
    assert not publisher._lanes
