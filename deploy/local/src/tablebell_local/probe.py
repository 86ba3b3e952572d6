"""One GET to a local port, for health checks that run ten times a second during a start."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

TIMEOUT = 5.0


@dataclass(frozen=True)
class Response:
    status: int
    body: str


class NoResponse(Exception):
    """Nothing listens on the port, or it does not speak HTTP."""


async def get(port: int, path: str, login: tuple[str, str] | None = None) -> Response:
    headers = {}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    return await asyncio.to_thread(_get, port, path, headers)


def _get(port: int, path: str, headers: Mapping[str, str]) -> Response:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("GET", path, headers=dict(headers))
        response = connection.getresponse()
        return Response(response.status, response.read(2_000).decode(errors="replace"))
    except (OSError, HTTPException) as error:
        raise NoResponse(f"no response from 127.0.0.1:{port}: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
