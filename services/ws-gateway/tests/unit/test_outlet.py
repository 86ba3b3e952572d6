import asyncio

from ws_gateway.outlet import BURST, GATHER_SECONDS, Outlet


class Socket:
    def __init__(self) -> None:
        self.paid_at: list[float] = []

    def pay(self) -> None:
        self.paid_at.append(asyncio.get_running_loop().time())


async def test_a_frame_that_comes_alone_leaves_in_the_next_turn() -> None:
    outlet, socket = Outlet(), Socket()
    for _ in range(3):
        outlet.add(socket)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(socket.paid_at) == 3


async def test_after_a_burst_what_comes_is_gathered_and_then_all_of_it_is_paid_once() -> None:
    outlet, sockets = Outlet(), [Socket() for _ in range(BURST)]
    for socket in sockets:
        outlet.add(socket)
    await asyncio.sleep(0)
    late = Socket()
    outlet.add(late)
    await asyncio.sleep(0)
    assert late.paid_at == [], "there may be more for it"
    await asyncio.sleep(3 * GATHER_SECONDS)
    assert len(late.paid_at) == 1
    assert late.paid_at[0] - max(each.paid_at[0] for each in sockets) >= GATHER_SECONDS * 0.9
    outlet.add(late)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(late.paid_at) == 2, "quiet again"


async def test_a_socket_that_breaks_costs_the_others_nothing() -> None:
    class Broken(Socket):
        def pay(self) -> None:
            raise RuntimeError("the handler is closed")

    outlet, socket = Outlet(), Socket()
    outlet.add(Broken())
    outlet.add(socket)
    await asyncio.sleep(0)
    assert len(socket.paid_at) == 1
