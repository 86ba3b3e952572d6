import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.service_account import ServiceAccount
from tablebell_sandbox.testing import RunningSandbox, running_sandbox

PROJECT = "tablebell-demo"
PATH = f"/v1/projects/{PROJECT}/messages:send"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MESSAGE = {
    "token": "device-1",
    "notification": {"title": "Nuova prenotazione", "body": "Per 4, alle 20"},
    "data": {"channelSendId": "42"},
}


def assertion(account: dict[str, Any], **changes: Any) -> str:
    now = int(time.time())
    claims = {
        "iss": account["client_email"],
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": account["token_uri"],
        "iat": now,
        "exp": now + 3600,
    }
    return jwt.encode(claims | changes, account["private_key"], algorithm="RS256")


async def ask_token(http: httpx.AsyncClient, account: dict[str, Any], **changes: Any) -> httpx.Response:
    form = {"grant_type": GRANT, "assertion": assertion(account, **changes)}
    return await http.post(account["token_uri"], data=form)


@pytest.fixture
def account(sandbox: RunningSandbox, tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "account.json"
    sandbox.write_service_account(file, PROJECT)
    account: dict[str, Any] = json.loads(file.read_text())
    return account


@pytest.fixture
async def fcm(
    sandbox: RunningSandbox, http: httpx.AsyncClient, account: dict[str, Any]
) -> AsyncIterator[httpx.AsyncClient]:
    token = (await ask_token(http, account)).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=sandbox.fcm_url, headers=headers) as client:
        yield client


async def test_a_push_is_accepted_and_gets_a_name(sandbox: RunningSandbox, fcm: httpx.AsyncClient) -> None:
    response = await fcm.post(PATH, json={"message": MESSAGE})

    assert response.status_code == 200
    name = response.json()["name"]
    assert name.startswith(f"projects/{PROJECT}/messages/")
    (message,) = sandbox.messages(Channel.PUSH)
    assert (message.to, message.subject, message.text) == (["device-1"], "Nuova prenotazione", "Per 4, alle 20")
    assert (message.key, message.message_id, message.raw) == ("42", name, {"message": MESSAGE})
    assert message.headers["authorization"] == "Bearer (hidden)"


async def test_the_token_endpoint_responds_as_google_does(http: httpx.AsyncClient, account: dict[str, Any]) -> None:
    response = await ask_token(http, account)

    assert response.status_code == 200
    answer = response.json()
    assert (answer["expires_in"], answer["token_type"]) == (3600, "Bearer")


@pytest.mark.parametrize(
    "changes",
    [{"aud": "https://elsewhere.example/token"}, {"iss": "someone@else"}, {"exp": 1}],
    ids=["audience", "issuer", "expired"],
)
async def test_an_assertion_with_a_wrong_claim_is_refused(
    http: httpx.AsyncClient, account: dict[str, Any], changes: dict[str, Any]
) -> None:
    response = await ask_token(http, account, **changes)

    assert (response.status_code, response.json()["error"]) == (400, "invalid_grant")


async def test_an_assertion_signed_with_another_key_is_refused(
    http: httpx.AsyncClient, account: dict[str, Any]
) -> None:
    stranger = ServiceAccount.generate(PROJECT, account["token_uri"])
    response = await ask_token(http, account | {"private_key": stranger.private_key})

    assert response.status_code == 400
    assert response.json() == {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}


async def test_another_grant_type_is_unsupported(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    response = await http.post(f"{sandbox.fcm_url}/token", data={"grant_type": "password"})

    assert (response.status_code, response.json()["error"]) == (400, "unsupported_grant_type")


async def test_without_credentials_any_wellformed_assertion_is_accepted(
    sandbox: RunningSandbox, http: httpx.AsyncClient
) -> None:
    anyone = ServiceAccount.generate(PROJECT, f"{sandbox.fcm_url}/token")
    fields = {"client_email": "x@y", "token_uri": anyone.token_uri, "private_key": anyone.private_key}
    accepted = await ask_token(http, fields)
    refused = await http.post(anyone.token_uri, data={"grant_type": GRANT, "assertion": "nonsense"})

    assert (accepted.status_code, refused.status_code) == (200, 400)


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Bearer ya29.9999999999.000.00"}]
)
async def test_a_bad_bearer_is_unauthenticated(
    sandbox: RunningSandbox, http: httpx.AsyncClient, header: dict[str, str]
) -> None:
    response = await http.post(sandbox.fcm_url + PATH, json={"message": MESSAGE}, headers=header)

    assert response.status_code == 401
    assert response.json()["error"]["status"] == "UNAUTHENTICATED"
    assert sandbox.messages() == []


async def test_an_expired_bearer_is_unauthenticated(http: httpx.AsyncClient, tmp_path: Path) -> None:
    async with running_sandbox(fcm_token_seconds=0.001) as sandbox:
        sandbox.write_service_account(tmp_path / "account.json", PROJECT)
        token = (await ask_token(http, json.loads((tmp_path / "account.json").read_text()))).json()["access_token"]
        await asyncio.sleep(0.05)
        headers = {"Authorization": f"Bearer {token}"}
        response = await http.post(sandbox.fcm_url + PATH, json={"message": MESSAGE}, headers=headers)

    assert response.status_code == 401


async def test_a_bearer_token_stays_valid_after_a_restart_with_the_same_credentials(
    http: httpx.AsyncClient, tmp_path: Path
) -> None:
    file = tmp_path / "account.json"
    async with running_sandbox() as sandbox:
        sandbox.write_service_account(file, PROJECT)
        token = (await ask_token(http, json.loads(file.read_text()))).json()["access_token"]
    async with running_sandbox(fcm_credentials_file=file) as sandbox:
        headers = {"Authorization": f"Bearer {token}"}
        response = await http.post(sandbox.fcm_url + PATH, json={"message": MESSAGE}, headers=headers)

    assert response.status_code == 200


async def test_another_project_is_denied(fcm: httpx.AsyncClient) -> None:
    response = await fcm.post("/v1/projects/another/messages:send", json={"message": MESSAGE})

    assert (response.status_code, response.json()["error"]["status"]) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"message": {}}',
        b'{"message": {"token": ""}}',
        b'{"message": {"token": "a", "topic": "b"}}',
        b'{"message": {"token": "a", "data": {"id": 7}}}',
    ],
)
async def test_an_invalid_message_is_an_invalid_argument(
    sandbox: RunningSandbox, fcm: httpx.AsyncClient, body: bytes
) -> None:
    response = await fcm.post(PATH, content=body)

    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert sandbox.count(Channel.PUSH).refused == 1


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ({"data": {"channelSendId": "1", "id": "2"}}, "1"),
        ({"data": {"id": "2"}, "android": {"collapseKey": "3"}}, "2"),
        ({"android": {"collapseKey": "3"}}, "3"),
        ({"android": {"collapse_key": "3"}}, "3"),
        ({"apns": {"headers": {"apns-collapse-id": "4"}}}, "4"),
        ({}, '{"token": "device-1"}'),
    ],
)
async def test_the_key_is_the_most_specific_id(
    sandbox: RunningSandbox, fcm: httpx.AsyncClient, message: dict[str, Any], key: str
) -> None:
    await fcm.post(PATH, json={"message": {"token": "device-1", **message}})

    assert sandbox.keys(Channel.PUSH) == [key]
