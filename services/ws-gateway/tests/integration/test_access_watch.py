"""Revoked tokens and deactivated people: what reservation-api knows closes sockets with 4401 within seconds."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.exceptions import InvalidStatus

from tablebell.access_list import PEOPLE_PATH, REVOCATIONS_PATH
from tablebell.lifecycle import Stop
from tablebell.testing import eventually, free_port
from tablebell.testing.frames import notification
from tablebell.testing.tokens import AUDIENCE, KEY, PUBLIC_KEY_FILE, token
from tablebell.web import serve
from ws_gateway.settings import Settings

from .harness import RunningGateway, StartGateway, close_code, receive, running_gateway

INTERNAL_TOKEN = "the-token-of-the-other-services-in-tests"


class AccessApi:
    """Stands in for the internal routes and the keys of reservation-api."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.revocations: list[dict[str, Any]] = []
        self.unknown: set[str] = set()
        self.checked: list[str] = []
        self.is_down = False
        self.app = Starlette(
            routes=[
                Route("/.well-known/jwks.json", self._keys),
                Route(REVOCATIONS_PATH, self._revocations),
                Route(PEOPLE_PATH, self._people, methods=["POST"]),
            ]
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Of a gateway that uses it, with a short poll."""
        return {"internal_api_url": self.url, "internal_api_token": INTERNAL_TOKEN, "access_poll_seconds": 0.1}

    def revoke(self, person: str, token_id: str | None = None) -> None:
        self.revocations.append({"person": person, "tokenId": token_id, "issuedBefore": time.time()})

    async def _keys(self, _: Request) -> Response:
        return Response(status_code=503) if self.is_down else JSONResponse(KEY.jwks)

    async def _revocations(self, request: Request) -> Response:
        if self._refuses(request):
            return Response(status_code=503)
        tag = f'"{len(self.revocations)}"'
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304)
        return JSONResponse({"revocations": self.revocations}, headers={"ETag": tag})

    async def _people(self, request: Request) -> Response:
        if self._refuses(request):
            return Response(status_code=503)
        people = (await request.json())["people"]
        self.checked += people
        return JSONResponse({"people": [person for person in people if person in self.unknown]})

    def _refuses(self, request: Request) -> bool:
        return self.is_down or request.headers["Authorization"] != f"Bearer {INTERNAL_TOKEN}"


@pytest.fixture
async def access() -> AsyncIterator[AccessApi]:
    stop, port = Stop(), free_port()
    api = AccessApi(port)
    serving = asyncio.create_task(serve(api.app, "127.0.0.1", port, stop))
    yield api
    stop.request()
    await serving


async def refused(gateway: RunningGateway, bearer: str) -> int | None:
    client = await gateway.open()
    await client.send(json.dumps({"type": "auth", "token": bearer}))
    return await close_code(client)


@pytest.mark.parametrize("token_id", [None, "of-a-stolen-phone"])
async def test_a_revocation_closes_open_sockets_and_refuses_the_token(
    start_gateway: StartGateway, access: AccessApi, token_id: str | None
) -> None:
    gateway = await start_gateway(**access.settings)
    bearer = token(jti="of-a-stolen-phone")
    client = await gateway.open()
    await client.send(json.dumps({"type": "auth", "token": bearer}))
    assert (await receive(client))["type"] == "ready"
    neighbour = await gateway.sign_in("RESTAURANT_USER:51", jti="of-a-stolen-phone")
    access.revoke("RESTAURANT_USER:50", token_id)
    assert await close_code(client, within=5) == 4401
    assert await refused(gateway, bearer) == 4401
    newer = await gateway.sign_in("RESTAURANT_USER:50")
    await gateway.publish(notification(1, "RESTAURANT_USER:50", "RESTAURANT_USER:51"))
    assert (await receive(newer))["id"] == (await receive(neighbour))["id"] == 1


async def test_with_the_default_settings_a_revocation_closes_sockets_within_5_seconds(
    start_gateway: StartGateway, access: AccessApi
) -> None:
    gateway = await start_gateway(**{**access.settings, "access_poll_seconds": 2.0})
    client = await gateway.sign_in()
    access.revoke("RESTAURANT_USER:50")
    assert await close_code(client, within=5) == 4401


async def test_a_person_who_does_not_exist_or_is_inactive_is_closed_with_4401(
    start_gateway: StartGateway, access: AccessApi
) -> None:
    access.unknown = {"CUSTOMER:4711"}
    gateway = await start_gateway(**access.settings)
    neighbour = await gateway.sign_in("CUSTOMER:5")
    assert await refused(gateway, token("CUSTOMER:4711")) == 4401
    await eventually(lambda: {"CUSTOMER:5", "CUSTOMER:4711"} <= set(access.checked))
    await gateway.publish(notification(1, "CUSTOMER:5"))
    assert (await receive(neighbour))["id"] == 1
    assert access.checked.count("CUSTOMER:5") == 1


async def test_a_gateway_that_starts_later_refuses_what_was_revoked_before(
    start_gateway: StartGateway, access: AccessApi
) -> None:
    bearer = token()
    access.revoke("RESTAURANT_USER:50")
    assert await refused(await start_gateway(**access.settings), bearer) == 4401


async def test_until_keys_and_revocations_are_read_once_nobody_is_let_in(
    amqp_url: Any, broker: Any, access: AccessApi
) -> None:
    access.is_down = True
    port = free_port()
    settings = {
        **access.settings,
        "port": port,
        "jwt_public_key_file": None,
        "jwt_jwks_url": f"{access.url}/.well-known/jwks.json",
    }

    async def because() -> Any:
        try:
            async with httpx.AsyncClient() as http:
                return (await http.get(f"http://127.0.0.1:{port}/health/ready")).json().get("because")
        except httpx.TransportError:
            return None

    async def look_at_start() -> None:
        await eventually(lambda: _is({"keys", "revocations"}, because), within=20)
        gateway = RunningGateway(Settings(**SETTINGS, **settings, amqp_url=amqp_url), Stop(), broker)
        with pytest.raises(InvalidStatus) as refused:
            await gateway.open()
        assert refused.value.response.status_code == 503
        access.is_down = False

    looking = asyncio.create_task(look_at_start())
    async with running_gateway(amqp_url, broker, **settings) as gateway:
        await looking
        client = await gateway.sign_in()
        access.is_down = True
        await asyncio.sleep(0.5)
        assert await gateway.is_ready(), "the gateway works with what it knows while the API is down"
        await gateway.sign_in("RESTAURANT_USER:51")
        access.revoke("RESTAURANT_USER:50")
        access.is_down = False
        assert await close_code(client, within=5) == 4401


SETTINGS: dict[str, Any] = {"host": "127.0.0.1", "jwt_audience": AUDIENCE}


async def _is(expected: set[str], because: Any) -> bool:
    return expected <= set(await because() or ())


async def test_people_are_checked_when_the_api_answers_again(start_gateway: StartGateway, access: AccessApi) -> None:
    gateway = await start_gateway(**access.settings)
    access.is_down = True
    access.unknown = {"CUSTOMER:4711"}
    client = await gateway.sign_in("CUSTOMER:4711")
    access.is_down = False
    assert await close_code(client, within=5) == 4401


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"REVOKED_TOKENS_FILE": "/nowhere/revoked"}, "REVOKED_TOKENS_FILE"),
        ({"INTERNAL_API_URL": "http://127.0.0.1:8080"}, "INTERNAL_API_URL"),
        ({"INTERNAL_API_URL": "http://api:8080", "INTERNAL_API_TOKEN": INTERNAL_TOKEN}, "INTERNAL_API_URL"),
    ],
    ids=["unreadable file", "no token", "not https"],
)
def test_a_source_of_revocations_that_cannot_be_used_stops_the_start(changed: dict[str, str], named: str) -> None:
    settings = {
        "PATH": os.environ["PATH"],
        "AMQP_URL": "amqp://user:password@127.0.0.1:1/",
        "JWT_AUDIENCE": AUDIENCE,
        "JWT_PUBLIC_KEY_FILE": str(PUBLIC_KEY_FILE),
        "PORT": str(free_port()),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "ws_gateway"],
        env=settings | changed,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 78
    assert named in ended.stderr


async def test_a_file_that_becomes_unreadable_keeps_its_entries(
    start_gateway: StartGateway, revoked_file: Path
) -> None:
    await asyncio.to_thread(revoked_file.write_text, "RESTAURANT_USER:50\n")
    gateway = await start_gateway(revoked_tokens_file=revoked_file)
    await asyncio.to_thread(revoked_file.unlink)
    await asyncio.sleep(0.6)
    assert await refused(gateway, token()) == 4401
