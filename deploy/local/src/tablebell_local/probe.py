"""One GET to a port of this machine, for health checks that run ten times a second while a part starts."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

TIMEOUT = 5.0


@dataclass(frozen=True)
class Answer:
    status: int
    body: str


class NoAnswer(Exception):
    """Nobody listens there, or who does speaks no HTTP."""


async def get(port: int, path: str, login: tuple[str, str] | None = None) -> Answer:
    headers = {}
    if login:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    return await asyncio.to_thread(_get, port, path, headers)


def _get(port: int, path: str, headers: Mapping[str, str]) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("GET", path, headers=dict(headers))
        response = connection.getresponse()
        return Answer(response.status, response.read(2_000).decode(errors="replace"))
    except (OSError, HTTPException) as error:
        raise NoAnswer(f"no answer at 127.0.0.1:{port}: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
