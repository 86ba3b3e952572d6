"""A token ends with its person, in the whole system: the API refuses it and both gateways close the sockets."""

import asyncio
import json

import httpx
import pytest
from chaos.environment import ChaosEnvironment
from chaos.store import Connection
from websockets.asyncio.client import ClientConnection, connect

from tablebell.testing import eventually

pytestmark = pytest.mark.timeout(120)


async def sign_in(gateway: str, token: str) -> ClientConnection:
    socket = await connect(f"{gateway}/ws")
    await socket.send(json.dumps({"type": "auth", "token": token}))
    assert json.loads(await asyncio.wait_for(socket.recv(), 10))["type"] == "ready"
    return socket


async def is_refused(api: str, token: str) -> bool:
    async with httpx.AsyncClient(base_url=api) as http:
        answer = await http.get("/me/preferences", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code in {200, 401}
    return answer.status_code == 401


@pytest.mark.parametrize(
    "ending",
    ["UPDATE customer SET active = false WHERE id = $1", "DELETE FROM customer WHERE id = $1"],
    ids=["deactivated", "deleted"],
)
async def test_a_person_who_leaves_loses_the_api_and_the_sockets_within_5_seconds(
    environment: ChaosEnvironment, connection: Connection, ending: str
) -> None:
    person = await connection.fetchval("INSERT INTO customer (name) VALUES ('Leaving') RETURNING id")
    token = environment.tokens.issue(f"customer:{person}")
    sockets = [await sign_in(gateway, token) for gateway in environment.gateway_urls]
    assert [await is_refused(api, token) for api in environment.api_urls] == [False, False]
    await connection.execute(ending, person)
    async with asyncio.timeout(5):
        for api in environment.api_urls:
            await eventually(lambda api=api: is_refused(api, token), within=5, every=0.1)  # type: ignore[misc]
        for socket in sockets:
            await socket.wait_closed()
    assert [socket.close_code for socket in sockets] == [4401, 4401]


async def test_a_person_who_never_existed_is_refused(environment: ChaosEnvironment) -> None:
    token = environment.tokens.issue("admin_user:987654")
    assert await is_refused(environment.api_urls[0], token)
    socket = await sign_in(environment.gateway_urls[0], token)
    async with asyncio.timeout(5):
        await socket.wait_closed()
    assert socket.close_code == 4401
