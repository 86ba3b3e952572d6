import asyncio

from ws_gateway.write_coalescer import BUSY_CONNECTIONS, COALESCE_SECONDS, WriteCoalescer


class FakeConnection:
    def __init__(self) -> None:
        self.flushed_at: list[float] = []

    def flush(self) -> None:
        self.flushed_at.append(asyncio.get_running_loop().time())


async def test_without_load_a_frame_is_flushed_in_the_next_loop_iteration() -> None:
    coalescer, connection = WriteCoalescer(), FakeConnection()
    for _ in range(3):
        coalescer.add(connection)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(connection.flushed_at) == 3


async def test_after_a_large_flush_the_next_one_is_delayed() -> None:
    coalescer, connections = WriteCoalescer(), [FakeConnection() for _ in range(BUSY_CONNECTIONS)]
    for connection in connections:
        coalescer.add(connection)
    await asyncio.sleep(0)
    late = FakeConnection()
    coalescer.add(late)
    await asyncio.sleep(0)
    assert late.flushed_at == []
    await asyncio.sleep(3 * COALESCE_SECONDS)
    assert len(late.flushed_at) == 1
    assert late.flushed_at[0] - max(each.flushed_at[0] for each in connections) >= COALESCE_SECONDS * 0.9
    coalescer.add(late)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(late.flushed_at) == 2, "there is no load any more"


async def test_an_error_in_one_connection_does_not_stop_the_others() -> None:
    class BrokenConnection(FakeConnection):
        def flush(self) -> None:
            raise RuntimeError("the handler is closed")

    coalescer, connection = WriteCoalescer(), FakeConnection()
    coalescer.add(BrokenConnection())
    coalescer.add(connection)
    await asyncio.sleep(0)
    assert len(connection.flushed_at) == 1
