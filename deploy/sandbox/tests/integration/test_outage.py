"""`refuse`: the channel's port refuses connections."""

import asyncio
import time
from email.message import EmailMessage
from urllib.parse import urlsplit

import aiosmtplib
import httpx
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox


def port_of(sandbox: RunningSandbox, channel: Channel) -> int:
    if channel is Channel.EMAIL:
        return sandbox.smtp_port
    url = {Channel.SMS: sandbox.sms_url, Channel.PUSH: sandbox.fcm_url, Channel.SLACK: sandbox.slack_url}[channel]
    port = urlsplit(url).port
    assert port is not None
    return port


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@pytest.mark.parametrize("channel", Channel)
async def test_the_port_refuses_until_the_fault_is_deleted(
    sandbox: RunningSandbox, web: httpx.AsyncClient, channel: Channel
) -> None:
    port = port_of(sandbox, channel)
    others = [port_of(sandbox, other) for other in Channel if other is not channel]
    await web.put(f"/api/faults/{channel}", json=[{"kind": "refuse"}])

    assert not await listens(port)
    assert all([await listens(other) for other in others])
    await web.delete(f"/api/faults/{channel}")
    assert await listens(port)


@pytest.mark.parametrize("channel", [Channel.EMAIL, Channel.SMS])
async def test_an_outage_ends_by_itself_on_the_same_port(sandbox: RunningSandbox, channel: Channel) -> None:
    started = time.monotonic()
    await sandbox.set_faults(channel, {"kind": "refuse", "for_seconds": 0.6})
    assert not await listens(port_of(sandbox, channel))
    while not await listens(port_of(sandbox, channel)):  # noqa: ASYNC110 - a client can only try again
        await asyncio.sleep(0.02)

    assert time.monotonic() - started >= 0.6


async def test_an_outage_closes_open_smtp_connections(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP) -> None:
    await smtp.ehlo()
    await sandbox.set_faults(Channel.EMAIL, {"kind": "refuse"})

    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await smtp.noop()


async def test_an_outage_closes_open_http_connections(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    assert (await http.post(sandbox.slack_url, json={"text": "x"})).is_success
    await sandbox.set_faults(Channel.SLACK, {"kind": "refuse"})

    with pytest.raises(httpx.ConnectError):
        await http.post(sandbox.slack_url, json={"text": "x"})


async def test_a_new_outage_replaces_the_duration_of_the_last_one(sandbox: RunningSandbox) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "refuse", "for_seconds": 0.1})
    await sandbox.set_faults(Channel.EMAIL, {"kind": "refuse"})
    await asyncio.sleep(0.3)

    assert not await listens(sandbox.smtp_port)


async def test_mail_is_accepted_after_an_outage(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "refuse"})
    await sandbox.set_faults(Channel.EMAIL)
    smtp.close()
    await smtp.connect()
    await smtp.send_message(letter)

    assert len(sandbox.messages()) == 1


async def test_concurrent_changes_leave_the_port_in_a_consistent_state(sandbox: RunningSandbox) -> None:
    refuse = {"kind": "refuse"}
    changes = [sandbox.set_faults(Channel.SMS, *([refuse] if number % 2 else [])) for number in range(20)]
    await asyncio.gather(*changes)
    await sandbox.set_faults(Channel.SMS)

    assert await listens(port_of(sandbox, Channel.SMS))
