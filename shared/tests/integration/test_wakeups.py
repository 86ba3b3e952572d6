"""Committed work is announced; the poll finds work whose announcement was lost."""

import asyncio
import time
from datetime import timedelta

from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outbox import Level, OutboxQueue
from tablebell.postgres import Pool, connect
from tablebell.testing import Database, append_rows, eventually
from tablebell.wakeups import Wakeup, WakeupListener, WakeupSender

from .levels import ALL_PARTITIONS, new_row


async def listening(database: Database, stop: Stop, tasks: asyncio.TaskGroup) -> Wakeup:
    listener = WakeupListener(database.url, "test")
    wakeup = listener.subscribe(Level.EVENT)
    tasks.create_task(listener.run(stop))
    await eventually(lambda: listener.connected)
    await wakeup.wait(1, stop)  # every new connection wakes once
    return wakeup


async def test_a_listener_wakes_within_milliseconds(database: Database, pool: Pool) -> None:
    stop, announcer = Stop(), WakeupSender(pool)
    await pool.fetchval("SELECT 1")
    async with asyncio.TaskGroup() as tasks:
        wakeup = await listening(database, stop, tasks)
        delays = []
        for _ in range(20):
            started = time.perf_counter()
            announcer.announce(Level.EVENT)
            assert await wakeup.wait(5, stop)
            delays.append(time.perf_counter() - started)
            await asyncio.sleep(0.02)
        stop.request()
    assert min(delays) < 0.02, "never within milliseconds, even at its best: this is not a wake-up but a poll"


async def test_a_burst_is_announced_by_a_few_notifications(database: Database, pool: Pool) -> None:
    announcer = WakeupSender(pool)
    heard: list[int] = []
    connection = await connect(database.url, "test")
    await connection.add_listener(Level.EVENT, lambda *_: heard.append(1))
    for _ in range(100):
        announcer.announce(Level.EVENT)
        await asyncio.sleep(0)
    await announcer.close()
    await eventually(lambda: heard)
    await connection.close()
    assert 1 <= len(heard) <= 10


async def test_an_announcement_before_the_wait_is_not_lost(stop: Stop) -> None:
    wakeup = Wakeup()
    wakeup.now()
    assert await wakeup.wait(0.01, stop)
    assert not await wakeup.wait(0.01, stop)


async def test_a_stop_ends_the_wait_at_once(stop: Stop) -> None:
    waiting = asyncio.create_task(Wakeup().wait(3600, stop))
    await asyncio.sleep(0)
    stop.request()
    assert await asyncio.wait_for(waiting, 1) is False


async def test_a_listener_reconnects_after_its_connection_was_terminated(database: Database, pool: Pool) -> None:
    stop, announcer = Stop(), WakeupSender(pool)
    async with asyncio.TaskGroup() as tasks:
        wakeup = await listening(database, stop, tasks)
        await pool.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test listener'"
        )
        assert await wakeup.wait(10, stop), "a new connection wakes everybody: something may have been missed"
        announcer.announce(Level.EVENT)
        assert await wakeup.wait(10, stop)
        stop.request()


async def test_nothing_is_lost_when_every_announcement_is_dropped(pool: Pool) -> None:
    outbox, stop = OutboxQueue(Level.EVENT), Stop()
    done: list[int] = []

    async def run_once() -> bool:
        batch = await outbox.claim(pool, ALL_PARTITIONS, limit=10, lease=timedelta(seconds=30))
        done.extend(await outbox.complete_if_leased(pool, [row["id"] for row in batch.rows], batch.token))
        return batch.more

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(keep_running("test", run_once, Wakeup(), poll_seconds=0.05, stop=stop))
        expected = []
        for number in range(1, 6):
            expected += await append_rows(
                pool, Level.EVENT, [new_row(Level.EVENT, number * 100 + n) for n in range(25)]
            )
            await asyncio.sleep(0.03)
        await eventually(lambda: len(done) == len(expected))
        stop.request()
    assert sorted(done) == expected


async def test_the_loop_continues_after_an_outage(stop: Stop) -> None:
    calls = 0

    async def run_once() -> bool:
        nonlocal calls
        calls += 1
        if calls <= 2:
            raise ConnectionRefusedError("away")
        stop.request()
        return False

    await asyncio.wait_for(keep_running("test", run_once, Wakeup(), poll_seconds=60, stop=stop), 10)
    assert calls == 3
