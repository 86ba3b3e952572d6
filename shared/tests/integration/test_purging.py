"""The purge of every service: its loop, its batches, and the record for the audit."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

from prometheus_client import REGISTRY

from tablebell.lifecycle import Stop
from tablebell.postgres import Connection, Pool
from tablebell.purging import SHORTEST_PAUSE, Purge, Retention, keep_purging
from tablebell.testing import eventually

WEEK = timedelta(days=7)
DELETE = """
DELETE FROM live_frame
 WHERE id IN (SELECT id FROM live_frame WHERE created_at < now() - $1::interval LIMIT $2)
"""


class Batches:
    def __init__(self, *answers: bool | Exception) -> None:
        self._answers = list(answers)
        self.times: list[float] = []

    async def __call__(self) -> bool:
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if self._answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_it_pauses_between_batches_and_continues_until_nothing_is_left(stop: Stop) -> None:
    batches = Batches(True, True, False)
    purging = asyncio.create_task(keep_purging("test", batches, 600.0, stop, first_after=0.0))
    await eventually(lambda: len(batches.times) == 3)
    assert all(later - earlier >= SHORTEST_PAUSE for earlier, later in pairwise(batches.times))
    stop.request()
    await purging


async def test_an_unexpected_error_is_retried_at_the_next_interval(stop: Stop) -> None:
    batches = Batches(ValueError("a row that cannot be deleted"), True, False)
    purging = asyncio.create_task(keep_purging("test", batches, 0.2, stop))
    await eventually(lambda: len(batches.times) >= 3)
    assert not purging.done()
    stop.request()
    await purging


async def purge_frames(connection: Connection, keep: timedelta, limit: int) -> int:
    return int((await connection.execute(DELETE, keep, limit)).rpartition(" ")[2])


async def append_frames(pool: Pool, count: int) -> None:
    await pool.execute(
        "INSERT INTO live_frame (message, created_at) SELECT '', now() - interval '8 days' FROM generate_series(1, $1)",
        count,
    )


async def count_frames(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM live_frame"))


async def test_a_run_deletes_at_most_a_batch_and_counts_it(pool: Pool) -> None:
    name = str(uuid4())
    await append_frames(pool, 25)
    purge = Purge(pool, [Retention(name, WEEK, purge_frames)], batch_size=10)
    assert [(await purge.run_once(), await count_frames(pool)) for _ in range(3)] == [(True, 15), (True, 5), (False, 0)]
    assert REGISTRY.get_sample_value("rows_purged_total", {"retention": name}) == 25


async def test_one_replica_purges_at_a_time(pool: Pool) -> None:
    await append_frames(pool, 5)
    purge = Purge(pool, [Retention("frames", WEEK, purge_frames)])
    async with pool.acquire() as other, other.transaction():
        assert await other.fetchval("SELECT pg_try_advisory_xact_lock(hashtext('purge frames'))")
        assert await purge.run_once() is False
        assert await count_frames(pool) == 5
    await purge.run_once()
    assert await count_frames(pool) == 0


async def test_a_purge_records_how_far_the_history_was_deleted(pool: Pool) -> None:
    async def horizon() -> dict[str, float]:
        rows = await pool.fetch("SELECT retention, extract(epoch FROM now() - purged_before) AS age FROM purge_horizon")
        return {row["retention"]: round(float(row["age"]) / 86_400) for row in rows}

    retentions = [
        Retention("history", WEEK, purge_frames),
        Retention("other", WEEK, purge_frames, is_history=False),
    ]
    await Purge(pool, retentions).run_once()
    assert await horizon() == {}, "nothing was deleted"
    await append_frames(pool, 1)
    await Purge(pool, retentions).run_once()
    await append_frames(pool, 1)
    await Purge(pool, retentions[1:]).run_once()
    assert await horizon() == {"history": 7}
    await append_frames(pool, 1)
    await Purge(pool, [Retention("history", timedelta(days=8) - timedelta(hours=1), purge_frames)]).run_once()
    assert await count_frames(pool) == 0
    assert await horizon() == {"history": 7}, "a longer retention does not bring history back"


async def test_a_retention_that_fails_does_not_stop_the_others(pool: Pool) -> None:
    async def fail(_connection: Connection, _keep: timedelta, _limit: int) -> int:
        raise ValueError("a row that cannot be deleted")

    await append_frames(pool, 5)
    purge = Purge(pool, [Retention("broken", WEEK, fail), Retention("frames", WEEK, purge_frames)])
    before = REGISTRY.get_sample_value("purge_failures_total", {"retention": "broken"}) or 0
    assert await purge.run_once() is False
    assert await count_frames(pool) == 0
    assert REGISTRY.get_sample_value("purge_failures_total", {"retention": "broken"}) == before + 1
