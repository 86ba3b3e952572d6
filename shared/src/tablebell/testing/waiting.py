"""Waiting for a condition, with a timeout."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(probe: Callable[[], Awaitable[T]], within: float = ..., every: float = ...) -> T: ...


@overload
async def eventually(probe: Callable[[], T], within: float = ..., every: float = ...) -> T: ...


async def eventually(probe: Callable[[], Any], within: float = 10.0, every: float = 0.01) -> Any:
    """Call `probe` until it returns a truthy value, and return that value. Fails with the last value after `within`."""
    deadline = asyncio.get_running_loop().time() + within
    while True:
        answer = probe()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert asyncio.get_running_loop().time() < deadline, f"not within {within} s; the last answer was {answer!r}"
        await asyncio.sleep(every)
