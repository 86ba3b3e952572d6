"""uvicorn's HTTP protocol behind a TcpServer.

uvicorn's own Server is not used: it handles signals and owns its port, but here five ports share one process and each
must be able to close and reopen.
"""

import asyncio
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from tablebell_sandbox.tcp_server import TcpServer

# Longer than any client keeps an idle connection, so that the sandbox never closes one during a request.
KEEP_ALIVE_SECONDS = 120


def http_listener(setting: str, host: str, port: int, app: ASGIApp) -> TcpServer:
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    config.load()
    state = ServerState()

    def connect() -> asyncio.BaseProtocol:
        shared: dict[str, Any] = {}
        protocol: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
            config=config, server_state=state, app_state=shared
        )
        shared["connection"] = protocol
        return protocol

    return TcpServer(setting, host, port, factory=connect, connections=state.connections)


class NoResponse(Response):
    """Closes the connection without a response."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - that is the point
        scope["state"]["connection"].transport.abort()
        await wait_for_disconnect(receive)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
