"""Claims are round-robin over the restaurants, use their indexes, and never share a row."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import uuid4

import pytest

from channel_dispatcher import store
from channel_dispatcher.delivery import Delivery
from tablebell.people import Channel
from tablebell.testing import plan

from .harness import Harness

SMS = Channel.SMS
LEASE = timedelta(seconds=30)


async def claim(harness: Harness, limit: int, after: int = 0) -> store.Claim:
    return await store.claim_fair(harness.service, SMS, limit=limit, lease=LEASE, after=after, max_attempts=5)


async def restaurants(harness: Harness, deliveries: list[Delivery]) -> list[int]:
    rows = await harness.pool.fetch("SELECT id, restaurant_id FROM notification_channel_send")
    of = {row["id"]: row["restaurant_id"] for row in rows}
    return [of[delivery.id] for delivery in deliveries]


async def test_a_burst_of_one_restaurant_does_not_reduce_the_share_of_others(harness: Harness) -> None:
    await harness.add(SMS, 500, restaurant_id=10)
    for restaurant in (11, 12):
        await harness.add(SMS, restaurant_id=restaurant)
    claimed = await claim(harness, 30)
    assert (await restaurants(harness, list(claimed.deliveries)))[:4] == [10, 11, 12, 10]
    assert claimed.more


async def test_a_claim_continues_where_the_last_one_stopped(harness: Harness) -> None:
    for restaurant in range(1, 11):
        await harness.add(SMS, 5, restaurant_id=restaurant)
    after, seen = 0, []
    for _ in range(5):
        claimed = await claim(harness, 4, after)
        after = claimed.last_restaurant
        seen += await restaurants(harness, list(claimed.deliveries))
    assert Counter(seen) == dict.fromkeys(range(1, 11), 2)


async def test_a_round_over_more_restaurants_than_one_claim_visits_reaches_all(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_VISITS", 5)
    for restaurant in range(1, 13):
        await harness.add(SMS, restaurant_id=restaurant)
    await harness.pool.execute(
        "UPDATE notification_channel_send SET next_attempt_at = now() + interval '1 hour' WHERE restaurant_id <> 12"
    )
    after, seen = 0, []
    for _ in range(5):
        claimed = await claim(harness, 10, after)
        after = claimed.last_restaurant
        seen += await restaurants(harness, list(claimed.deliveries))
    assert seen == [12]


async def test_concurrent_claims_never_share_a_row_and_leave_none(harness: Harness) -> None:
    ids = [row for restaurant in range(1, 8) for row in await harness.add(SMS, 40, restaurant_id=restaurant)]
    claims = await asyncio.gather(*(claim(harness, 30, after) for after in range(8)))
    claimed = [delivery.id for each in claims for delivery in each.deliveries]
    assert len(claimed) == len(set(claimed))
    while more := (await claim(harness, 50)).deliveries:
        claimed += [delivery.id for delivery in more]
    assert sorted(claimed) == sorted(ids)


async def test_more_is_true_while_any_restaurant_has_claimable_rows(harness: Harness) -> None:
    """Two dispatchers with a rate limit claim one row each: the row of the first must not hide the rest."""
    for restaurant in range(1, 7):
        await harness.add(SMS, restaurant_id=restaurant)
    after, taken = 0, set[int]()
    for left in range(5, -1, -1):
        claimed = await claim(harness, 1, after=0 if left % 2 else after)
        taken |= {delivery.id for delivery in claimed.deliveries}
        after = claimed.last_restaurant
        assert (len(claimed.deliveries), claimed.more) == (1, True), f"{left} rows are left"
    assert len(taken) == 6
    last = await claim(harness, 1)
    assert (len(last.deliveries), last.more) == (0, False)


async def test_more_is_false_after_a_claim_took_all_rows(harness: Harness) -> None:
    await harness.add(SMS, 3)
    claimed = await claim(harness, 10)
    assert (len(claimed.deliveries), claimed.more) == (3, False)
    assert not (await claim(harness, 10)).more


@pytest.mark.timeout(60)
async def test_a_claim_uses_its_indexes_with_a_large_history_and_backlog(harness: Harness) -> None:
    for restaurant in range(1, 41):
        await harness.add(SMS, 250, restaurant_id=restaurant)
    await harness.pool.execute("UPDATE notification_channel_send SET is_sent = true, outcome = 'SENT'")
    for restaurant in (10, 11):
        await harness.add(SMS, 3000 if restaurant == 10 else 1, restaurant_id=restaurant)
    await harness.pool.execute("UPDATE notification_channel_send SET reservation_id = id, aggregate_version = 1")
    await harness.pool.execute("VACUUM ANALYZE notification_channel_send")
    nodes = await plan(harness.pool, store.SQL["claim_fair"], SMS, 48, uuid4(), LEASE, 0, 5, 300, True)
    scans = [node for node in nodes if node.get("Relation Name") == "notification_channel_send"]
    scans = [node for node in scans if "Scan" in node["Node Type"]]
    assert scans
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}
    assert "notification_channel_send_fair" in {node.get("Index Name") for node in nodes}
    assert "notification_channel_send_order" in {node.get("Index Name") for node in nodes}
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 150


def test_every_query_has_a_function() -> None:
    functions = {name for name, value in vars(store).items() if asyncio.iscoroutinefunction(value)}
    assert functions == set(store.SQL)
