"""The faults of the three HTTP channels, each in its provider's format."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import jwt
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox, running_sandbox

Send = Callable[[Channel], Awaitable[httpx.Response]]
HTTP_CHANNELS = [Channel.SMS, Channel.PUSH, Channel.SLACK]
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def ask_token(sandbox: RunningSandbox, http: httpx.AsyncClient) -> httpx.Response:
    now = int(time.time())
    assertion = jwt.encode({"iss": "a", "aud": "b", "iat": now, "exp": now + 60}, "k" * 32)
    return await http.post(f"{sandbox.fcm_url}/token", data={"grant_type": GRANT, "assertion": assertion})


@pytest.fixture
async def send(sandbox: RunningSandbox, http: httpx.AsyncClient) -> Send:
    token = (await ask_token(sandbox, http)).json()["access_token"]

    async def send_to(channel: Channel) -> httpx.Response:
        match channel:
            case Channel.SMS:
                form = {"To": "+393331234567", "From": "+15005550006", "Body": "ciao"}
                url = f"{sandbox.sms_url}/2010-04-01/Accounts/AC1/Messages.json"
                return await http.post(url, data=form, auth=("AC1", "secret"))
            case Channel.PUSH:
                url = f"{sandbox.fcm_url}/v1/projects/demo/messages:send"
                headers = {"Authorization": f"Bearer {token}"}
                return await http.post(url, json={"message": {"token": "device-1"}}, headers=headers)
            case _:
                return await http.post(sandbox.slack_url, json={"text": "ciao"})

    return send_to


@pytest.mark.parametrize("channel", HTTP_CHANNELS)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 502, 503])
async def test_a_status_applies_as_often_as_set(
    sandbox: RunningSandbox, send: Send, channel: Channel, status: int
) -> None:
    await sandbox.set_faults(channel, {"kind": "http", "status": status, "count": 2})
    answers = [(await send(channel)).status_code for _ in range(3)]

    assert answers[:2] == [status, status]
    assert answers[2] in (200, 201)
    assert (sandbox.count(channel).accepted, sandbox.count(channel).refused) == (1, 2)


@pytest.mark.parametrize("channel", HTTP_CHANNELS)
async def test_429_has_a_retry_after(sandbox: RunningSandbox, send: Send, channel: Channel) -> None:
    await sandbox.set_faults(channel, {"kind": "http", "status": 429, "retry_after": 7})
    assert (await send(channel)).headers["retry-after"] == "7"

    await sandbox.set_faults(channel, {"kind": "http", "status": 429})
    assert (await send(channel)).headers["retry-after"] == "1"


@pytest.mark.parametrize("channel", HTTP_CHANNELS)
async def test_a_hang_never_responds_and_accepts_no_message(
    sandbox: RunningSandbox, send: Send, channel: Channel
) -> None:
    await sandbox.set_faults(channel, {"kind": "hang"})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await send(channel)

    assert (sandbox.count(channel).accepted, sandbox.count(channel).refused) == (0, 1)


async def test_a_fault_may_have_the_providers_own_code(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": 400, "code": "21612"})
    assert (await send(Channel.SMS)).json()["code"] == 21612
    await sandbox.set_faults(Channel.SLACK, {"kind": "http", "status": 410, "code": "channel_is_archived"})
    assert (await send(Channel.SLACK)).text == "channel_is_archived"
    await sandbox.set_faults(Channel.PUSH, {"kind": "http", "status": 401, "code": "THIRD_PARTY_AUTH_ERROR"})
    assert (await send(Channel.PUSH)).json()["error"]["details"][0]["errorCode"] == "THIRD_PARTY_AUTH_ERROR"
    await sandbox.set_faults(Channel.PUSH, {"kind": "http", "status": 403, "code": "PERMISSION_DENIED"})
    error = (await send(Channel.PUSH)).json()["error"]
    assert (error["status"], error["details"]) == ("PERMISSION_DENIED", [])


async def test_twilio_errors_have_its_own_code(sandbox: RunningSandbox, send: Send) -> None:
    codes = {}
    for status in (400, 401, 429, 500, 503):
        await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": status})
        codes[status] = (await send(Channel.SMS)).json()["code"]

    assert codes == {400: 20001, 401: 20003, 429: 20429, 500: 20500, 503: 20503}


async def test_an_invalid_number_is_21211(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "invalid_number"})
    response = await send(Channel.SMS)

    assert response.status_code == 400
    assert response.json()["code"] == 21211
    assert "+393331234567" in response.json()["message"]


@pytest.mark.parametrize(
    ("fault", "status", "name", "code"),
    [
        ({"kind": "unregistered"}, 404, "NOT_FOUND", "UNREGISTERED"),
        ({"kind": "http", "status": 429}, 429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
        ({"kind": "http", "status": 503}, 503, "UNAVAILABLE", "UNAVAILABLE"),
        ({"kind": "http", "status": 500}, 500, "INTERNAL", "INTERNAL"),
    ],
)
async def test_fcm_errors_have_its_own_code(
    sandbox: RunningSandbox, send: Send, fault: dict[str, Any], status: int, name: str, code: str
) -> None:
    await sandbox.set_faults(Channel.PUSH, fault)
    response = await send(Channel.PUSH)

    assert response.status_code == status
    error = response.json()["error"]
    assert (error["code"], error["status"]) == (status, name)
    kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
    assert error["details"] == [{"@type": kind, "errorCode": code}]


async def test_the_token_endpoint_can_fail_while_sending_works(
    sandbox: RunningSandbox, http: httpx.AsyncClient, send: Send
) -> None:
    await sandbox.set_faults(Channel.PUSH, {"kind": "token", "status": 503, "count": 1})

    assert (await send(Channel.PUSH)).status_code == 200
    assert (await ask_token(sandbox, http)).status_code == 503
    assert (await ask_token(sandbox, http)).status_code == 200


async def test_slack_responds_in_plain_text(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SLACK, {"kind": "http", "status": 404})

    assert (await send(Channel.SLACK)).text == "no_service"


@pytest.mark.parametrize("channel", HTTP_CHANNELS)
async def test_a_delay_comes_after_the_message_was_accepted(
    sandbox: RunningSandbox, send: Send, channel: Channel
) -> None:
    await sandbox.set_faults(channel, {"kind": "delay", "seconds": 0.3})
    response = await send(channel)

    assert response.is_success
    assert time.time() - sandbox.messages(channel)[0].received_at_epoch >= 0.29


@pytest.mark.parametrize("channel", HTTP_CHANNELS)
@pytest.mark.parametrize(("accept", "kept"), [(False, 0), (True, 1)])
async def test_a_drop_closes_the_connection_without_a_response(
    sandbox: RunningSandbox, send: Send, channel: Channel, accept: bool, kept: int
) -> None:
    await sandbox.set_faults(channel, {"kind": "drop", "accept": accept, "count": 1})
    with pytest.raises(httpx.RemoteProtocolError):
        await send(channel)

    assert (sandbox.count(channel).accepted, sandbox.count(channel).refused) == (kept, 1 - kept)
    assert (await send(channel)).is_success


async def test_a_delay_and_an_error_work_together(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "delay", "seconds": 0.2}, {"kind": "http", "status": 503})
    started = time.monotonic()

    assert (await send(Channel.SMS)).status_code == 503
    assert time.monotonic() - started >= 0.2


async def test_a_fault_on_one_channel_does_not_affect_others(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": 503})

    assert (await send(Channel.PUSH)).is_success
    assert (await send(Channel.SLACK)).is_success


async def test_match_limits_a_fault_to_its_recipient(sandbox: RunningSandbox, send: Send) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": 503, "match": "+39333999"})
    assert (await send(Channel.SMS)).status_code == 201

    await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": 503, "match": "+39333123"})
    assert (await send(Channel.SMS)).status_code == 503


async def test_a_stop_does_not_wait_for_a_delayed_response(http: httpx.AsyncClient) -> None:
    async with running_sandbox() as stopping:
        await stopping.set_faults(Channel.SLACK, {"kind": "delay", "seconds": 60})
        waiting = asyncio.create_task(http.post(stopping.slack_url, json={"text": "x"}))
        await stopping.wait_for(Channel.SLACK, 1)
        started = time.monotonic()

    assert time.monotonic() - started < 2
    with pytest.raises(httpx.RemoteProtocolError):
        await waiting
