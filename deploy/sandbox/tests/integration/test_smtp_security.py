"""TLS and login of the SMTP server."""

import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
import trustme

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox, running_sandbox

Certificate = dict[str, Any]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> Certificate:
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    return {"smtp_cert_file": tmp_path / "cert.pem", "smtp_key_file": tmp_path / "key.pem"}


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def send(sandbox: RunningSandbox, letter: EmailMessage, **options: Any) -> None:
    await aiosmtplib.send(letter, hostname="127.0.0.1", port=sandbox.smtp_port, timeout=10, **options)


async def test_starttls_is_offered_and_used(
    certificate: Certificate, trusting: ssl.SSLContext, letter: EmailMessage
) -> None:
    async with running_sandbox(smtp_tls="starttls", **certificate) as sandbox:
        await send(sandbox, letter, start_tls=True, tls_context=trusting)
        await send(sandbox, letter, start_tls=False)

        over_tls, in_clear = (message.envelope["tls"] for message in sandbox.messages())
    assert str(over_tls).startswith("TLSv1.")
    assert in_clear is None


async def test_implicit_tls_uses_tls_from_the_first_byte(
    certificate: Certificate, trusting: ssl.SSLContext, letter: EmailMessage
) -> None:
    async with running_sandbox(smtp_tls="implicit", **certificate) as sandbox:
        await send(sandbox, letter, use_tls=True, tls_context=trusting)

        assert str(sandbox.messages()[0].envelope["tls"]).startswith("TLSv1.")


@pytest.mark.parametrize(("mode", "option"), [("starttls", "start_tls"), ("implicit", "use_tls")])
async def test_a_client_rejects_an_untrusted_certificate(
    certificate: Certificate, letter: EmailMessage, mode: str, option: str
) -> None:
    async with running_sandbox(smtp_tls=mode, **certificate) as sandbox:
        with pytest.raises((aiosmtplib.SMTPException, ssl.SSLError)):
            await send(sandbox, letter, tls_context=ssl.create_default_context(), **{option: True})

        assert sandbox.messages() == []


@pytest.mark.parametrize(("mode", "option"), [("starttls", "start_tls"), ("implicit", "use_tls")])
async def test_drop_and_outage_work_over_tls(
    certificate: Certificate, trusting: ssl.SSLContext, letter: EmailMessage, mode: str, option: str
) -> None:
    tls: dict[str, Any] = {option: True, "tls_context": trusting}
    async with running_sandbox(smtp_tls=mode, **certificate) as sandbox:
        await sandbox.set_faults(Channel.EMAIL, {"kind": "drop"})
        with pytest.raises(aiosmtplib.SMTPServerDisconnected):
            await send(sandbox, letter, **tls)
        await sandbox.set_faults(Channel.EMAIL, {"kind": "refuse"})
        with pytest.raises(aiosmtplib.SMTPConnectError):
            await send(sandbox, letter, **tls)
        await sandbox.set_faults(Channel.EMAIL)
        await send(sandbox, letter, **tls)

        assert len(sandbox.messages()) == 1


async def test_a_login_in_the_settings_is_required(letter: EmailMessage) -> None:
    async with running_sandbox(smtp_username="bell", smtp_password="secret") as sandbox:
        with pytest.raises(aiosmtplib.SMTPResponseException) as anonymous:
            await send(sandbox, letter, start_tls=False)
        with pytest.raises(aiosmtplib.SMTPAuthenticationError) as stranger:
            await send(sandbox, letter, start_tls=False, username="bell", password="wrong")
        assert sandbox.messages() == []
        await send(sandbox, letter, start_tls=False, username="bell", password="secret")

        assert (anonymous.value.code, stranger.value.code) == (530, 535)
        assert sandbox.messages()[0].envelope["login"] == "bell"


async def test_login_over_starttls(certificate: Certificate, trusting: ssl.SSLContext, letter: EmailMessage) -> None:
    login = {"smtp_username": "bell", "smtp_password": "secret"}
    async with running_sandbox(smtp_tls="starttls", **login, **certificate) as sandbox:
        await send(sandbox, letter, start_tls=True, tls_context=trusting, username="bell", password="secret")

        envelope = sandbox.messages()[0].envelope
        assert envelope["login"] == "bell"
        assert envelope["tls"]


@pytest.mark.parametrize("method", ["auth_plain", "auth_login"])
async def test_both_mechanisms_work(method: str) -> None:
    async with running_sandbox(smtp_username="bell", smtp_password="secret") as sandbox:
        client = aiosmtplib.SMTP(hostname="127.0.0.1", port=sandbox.smtp_port, start_tls=False)
        async with client:
            await client.ehlo()
            response = await getattr(client, method)("bell", "secret")
    assert response.code == 235
