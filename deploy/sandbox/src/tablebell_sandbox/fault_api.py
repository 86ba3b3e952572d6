"""The JSON API that sets and clears the faults of a channel."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Fault, parse_faults

SetFaults = Callable[[Channel, Sequence[Fault]], Awaitable[None]]


def fault_router(active_faults: ActiveFaults, set_faults: SetFaults) -> APIRouter:
    router = APIRouter(prefix="/api/faults")

    @router.get("")
    async def list_faults() -> dict[Channel, list[dict[str, Any]]]:
        return {channel: active_faults.describe(channel) for channel in Channel}

    @router.put("/{channel}")
    async def replace_faults(channel: Channel, request: Request) -> list[dict[str, Any]]:
        """Parses the body itself: the valid faults depend on the channel in the path."""
        try:
            faults = parse_faults(channel, await request.json())
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_context=False)) from error
        except ValueError as error:
            problem = {"type": "json_invalid", "loc": ("body",), "msg": f"the body is not JSON: {error}"}
            raise RequestValidationError([problem]) from error
        await set_faults(channel, faults)
        return active_faults.describe(channel)

    @router.delete("", status_code=204)
    async def clear_all_faults() -> None:
        for channel in Channel:
            await set_faults(channel, [])

    @router.delete("/{channel}", status_code=204)
    async def clear_faults(channel: Channel) -> None:
        await set_faults(channel, [])

    return router
