"""The JSON API for received messages."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.message import Message
from tablebell_sandbox.store import Store

MAX_PAGE = 1000
# Yield to the event loop after parsing this many messages, so that senders are served.
PARSE_BATCH = 50


def json_response(content: Any) -> Response:
    """ASCII-only JSON: a message may contain a lone surrogate, which can only be sent escaped."""
    return Response(json.dumps(content), media_type="application/json")


def message_router(store: Store) -> APIRouter:
    router = APIRouter(prefix="/api")

    @router.get("/messages")
    async def list_messages(
        channel: Channel | None = None,
        to: str = "",
        since: Annotated[int | None, Query(ge=0)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
    ) -> Response:
        messages = []
        for number, record in enumerate(store.find(channel, to, since, limit), start=1):
            messages.append(Message.of(record).as_json())
            if number % PARSE_BATCH == 0:
                await asyncio.sleep(0)
        return json_response(messages)

    @router.delete("/messages", status_code=204)
    async def clear_messages() -> None:
        store.clear()

    @router.get("/counts")
    async def count_messages() -> Response:
        return json_response({channel: asdict(count) for channel, count in store.counts().items()})

    @router.get("/keys")
    async def list_keys(channel: Channel) -> Response:
        return json_response(store.keys(channel))

    return router
