import time
from email.message import EmailMessage

import aiosmtplib
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox

SENDER, ANNA, CARLO = "noreply@example.com", "anna@example.com", "carlo@example.com"
BODY = b"Subject: x\r\n\r\nhi\r\n"


@pytest.mark.parametrize("code", [450, 550, 452])
async def test_a_reply_at_data_refuses_the_mail_and_keeps_the_connection(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, code: int
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "smtp", "code": code, "count": 1})
    with pytest.raises(aiosmtplib.SMTPDataError) as refusal:
        await smtp.sendmail(SENDER, [ANNA], BODY)

    assert refusal.value.code == code
    assert refusal.value.message.startswith(f"{code // 100}.")
    await smtp.sendmail(SENDER, [ANNA], BODY)
    assert (sandbox.count(Channel.EMAIL).accepted, sandbox.count(Channel.EMAIL).refused) == (1, 1)


async def test_a_reply_at_rcpt_refuses_one_recipient_of_two(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "smtp", "code": 550, "at": "rcpt", "match": "carlo"})
    refused, _ = await smtp.sendmail(SENDER, [ANNA, CARLO], BODY)

    assert set(refused) == {CARLO}
    assert refused[CARLO].code == 550
    assert [message.to for message in sandbox.messages()] == [[ANNA]]


@pytest.mark.parametrize("stage", ["rcpt", "data"])
async def test_421_closes_the_connection(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, stage: str) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "smtp", "code": 421, "at": stage, "count": 1})
    with pytest.raises(aiosmtplib.SMTPException) as refusal:
        await smtp.sendmail(SENDER, [ANNA], BODY)

    assert "421" in str(refusal.value)
    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await smtp.noop()
    assert (sandbox.messages(), sandbox.count(Channel.EMAIL).refused) == ([], 1)


@pytest.mark.parametrize(
    ("stage", "error"), [("connect", aiosmtplib.SMTPConnectError), ("mail", aiosmtplib.SMTPSenderRefused)]
)
async def test_a_reply_has_the_given_text_at_any_stage(
    sandbox: RunningSandbox, stage: str, error: type[aiosmtplib.SMTPResponseException]
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "smtp", "code": 554, "at": stage, "text": "5.7.1 not you"})
    smtp = aiosmtplib.SMTP(hostname="127.0.0.1", port=sandbox.smtp_port, timeout=5)
    with pytest.raises(error) as refusal:
        async with smtp:
            await smtp.sendmail(SENDER, [ANNA], BODY)

    assert "5.7.1 not you" in str(refusal.value)


@pytest.mark.parametrize("stage", ["connect", "auth", "mail", "rcpt", "data"])
async def test_a_hang_never_responds_and_accepts_no_message(sandbox: RunningSandbox, stage: str) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "hang", "at": stage})
    smtp = aiosmtplib.SMTP(hostname="127.0.0.1", port=sandbox.smtp_port, timeout=0.3, username="a", password="b")
    with pytest.raises(aiosmtplib.SMTPTimeoutError):
        async with smtp:
            await smtp.sendmail(SENDER, [ANNA], BODY)

    assert (sandbox.count(Channel.EMAIL).accepted, sandbox.count(Channel.EMAIL).refused) == (0, 1)


async def test_535_refuses_the_login_once(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "smtp", "code": 535, "count": 1})
    await smtp.ehlo()
    with pytest.raises(aiosmtplib.SMTPAuthenticationError) as refusal:
        await smtp.auth_plain("anna", "secret")

    assert refusal.value.code == 535
    await smtp.auth_plain("anna", "secret")


async def test_a_delay_comes_after_the_mail_was_accepted(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "delay", "seconds": 0.3})
    await smtp.send_message(letter)

    assert time.time() - sandbox.messages()[0].received_at_epoch >= 0.29


async def test_a_mail_stays_accepted_after_a_clients_timeout(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "delay", "seconds": 30})
    with pytest.raises(aiosmtplib.SMTPTimeoutError):
        await smtp.send_message(letter, timeout=0.2)

    assert len(sandbox.messages()) == 1


@pytest.mark.parametrize(("accept", "kept"), [(False, 0), (True, 1)])
async def test_a_drop_closes_the_connection_without_a_response(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage, accept: bool, kept: int
) -> None:
    await sandbox.set_faults(Channel.EMAIL, {"kind": "drop", "accept": accept})
    with pytest.raises(aiosmtplib.SMTPServerDisconnected):
        await smtp.send_message(letter)

    assert (sandbox.count(Channel.EMAIL).accepted, sandbox.count(Channel.EMAIL).refused) == (kept, 1 - kept)
