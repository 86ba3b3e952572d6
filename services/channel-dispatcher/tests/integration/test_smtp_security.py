"""Implicit TLS, STARTTLS and login, against the sandbox and against Exim."""

from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from structlog.testing import capture_logs

from channel_dispatcher.breaker import State
from tablebell.people import Channel
from tablebell.testing import eventually
from tablebell_sandbox.channel import Channel as SandboxChannel
from tablebell_sandbox.store import Count
from tablebell_sandbox.testing import running_sandbox

from .exim import LOGIN, Exim, running_exim
from .harness import MESSAGES, Harness

EMAIL = Channel.EMAIL
PASSWORD = quote(LOGIN[1], safe="")
# The resolver takes this for 127.0.0.1, the settings for a host elsewhere.
ELSEWHERE = "127.1"


class Certificates:
    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "127.0.0.1", ELSEWHERE)
        self.authority, self.certificate, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        issued.private_key_pem.write_to_path(str(self.key))
        for blob in issued.cert_chain_pems:
            blob.write_to_path(str(self.certificate), append=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def exim(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> AsyncIterator[Exim]:
    assert request.config.cache is not None
    cache, folder = request.config.cache.mkdir("exim"), tmp_path_factory.mktemp("exim")
    async with running_exim(cache, folder, certificates.certificate, certificates.key) as exim:
        yield exim


@pytest.mark.parametrize(
    ("scheme", "tls"), [("smtps", "implicit"), ("smtp+starttls", "starttls"), ("smtp", "starttls")]
)
async def test_mail_reaches_the_sandbox_with_tls_and_login(
    harness: Harness, certificates: Certificates, scheme: str, tls: str
) -> None:
    server = {"smtp_tls": tls, "smtp_cert_file": certificates.certificate, "smtp_key_file": certificates.key}
    async with running_sandbox(**server, smtp_username=LOGIN[0], smtp_password=LOGIN[1]) as sandbox:
        url = f"{scheme}://{LOGIN[0]}:{PASSWORD}@localhost:{sandbox.smtp_port}"
        (row_id,) = await harness.add(EMAIL)
        async with harness.dispatching(EMAIL, changes={"smtp_url": url, "smtp_ca_file": certificates.authority}):
            (row,) = await harness.finished(row_id)
        (message,) = sandbox.messages(SandboxChannel.EMAIL)
    assert row["outcome"] == "SENT"
    assert message.envelope["tls"].startswith("TLSv1")
    assert message.envelope["login"] == LOGIN[0]


async def test_a_server_with_an_untrusted_certificate_gets_no_mail(
    harness: Harness, certificates: Certificates
) -> None:
    server = {"smtp_tls": "implicit", "smtp_cert_file": certificates.certificate, "smtp_key_file": certificates.key}
    async with running_sandbox(**server) as sandbox:
        (row_id,) = await harness.add(EMAIL)
        changes = {"smtp_url": f"smtps://localhost:{sandbox.smtp_port}"}
        async with harness.dispatching(EMAIL, changes=changes) as dispatchers:
            await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
        assert sandbox.count(SandboxChannel.EMAIL).accepted == 0
    row = await harness.row(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (None, 0)
    assert "certificate" in row["last_error"].lower()


async def test_a_server_without_required_starttls_gets_no_mail(harness: Harness) -> None:
    (row_id,) = await harness.add(EMAIL)
    changes = {"smtp_url": f"smtp+starttls://127.0.0.1:{harness.sandbox.smtp_port}"}
    async with harness.dispatching(EMAIL, changes=changes) as dispatchers:
        await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
    assert (await harness.row(row_id))["attempt_count"] == 0
    assert harness.sandbox.count(SandboxChannel.EMAIL).accepted == 0


async def test_a_login_is_not_sent_without_encryption(harness: Harness) -> None:
    async with running_sandbox(smtp_username=LOGIN[0], smtp_password=LOGIN[1]) as sandbox:
        (row_id,) = await harness.add(EMAIL)
        changes = {"smtp_url": f"smtp://{LOGIN[0]}:{PASSWORD}@{ELSEWHERE}:{sandbox.smtp_port}"}
        with capture_logs() as logs:
            async with harness.dispatching(EMAIL, changes=changes) as dispatchers:
                await eventually(lambda: dispatchers[EMAIL].breaker.state is State.OPEN)
        assert sandbox.count(SandboxChannel.EMAIL) == Count(), "it received neither the login nor a mail"
    row = await harness.row(row_id)
    assert (row["is_sent"], row["attempt_count"]) == (None, 0)
    assert "does not offer STARTTLS, and ALLOW_CLEARTEXT_CREDENTIALS is false" in row["last_error"]
    assert ("critical", "provider_refuses_us") in {(each["log_level"], each["event"]) for each in logs}


@pytest.mark.parametrize(
    ("host", "allowed"), [(ELSEWHERE, True), ("127.0.0.1", False), ("localhost", False)], ids=["allowed", "ip", "name"]
)
async def test_a_login_without_encryption_is_sent_to_this_machine_or_by_explicit_setting(
    harness: Harness, host: str, allowed: bool
) -> None:
    async with running_sandbox(smtp_username=LOGIN[0], smtp_password=LOGIN[1]) as sandbox:
        (row_id,) = await harness.add(EMAIL)
        url = f"smtp://{LOGIN[0]}:{PASSWORD}@{host}:{sandbox.smtp_port}"
        async with harness.dispatching(EMAIL, changes={"smtp_url": url, "allow_cleartext_credentials": allowed}):
            (row,) = await harness.finished(row_id)
        assert row["outcome"] == "SENT"
        (message,) = sandbox.messages(SandboxChannel.EMAIL)
    assert message.envelope["login"] == LOGIN[0]


async def test_a_login_is_sent_after_starttls(harness: Harness, certificates: Certificates) -> None:
    server = {"smtp_tls": "starttls", "smtp_cert_file": certificates.certificate, "smtp_key_file": certificates.key}
    async with running_sandbox(**server, smtp_username=LOGIN[0], smtp_password=LOGIN[1]) as sandbox:
        (row_id,) = await harness.add(EMAIL)
        url = f"smtp://{LOGIN[0]}:{PASSWORD}@{ELSEWHERE}:{sandbox.smtp_port}"
        async with harness.dispatching(EMAIL, changes={"smtp_url": url, "smtp_ca_file": certificates.authority}):
            (row,) = await harness.finished(row_id)
        assert row["outcome"] == "SENT"
        (message,) = sandbox.messages(SandboxChannel.EMAIL)
    assert message.envelope["login"] == LOGIN[0]
    assert message.envelope["tls"].startswith("TLSv1")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("scheme", ["smtps", "smtp+starttls"])
async def test_exim_accepts_mail_with_tls_and_login(
    harness: Harness, exim: Exim, certificates: Certificates, scheme: str
) -> None:
    port = exim.implicit_port if scheme == "smtps" else exim.starttls_port
    url = f"{scheme}://{LOGIN[0]}:{PASSWORD}@localhost:{port}"
    text = ".un punto all'inizio\nè tutto: 你好 🍝\n" + "lungo " * 300
    message = MESSAGES[EMAIL] | {"subject": "Prenotazione confermata - già 🍝", "paragraphs": [text]}
    ids = await harness.add(EMAIL, 30, message=message)
    (gone,) = await harness.add(EMAIL, recipient="gone@mail.example")
    (later,) = await harness.add(EMAIL, recipient="greylisted@mail.example")
    changes = {"smtp_url": url, "smtp_ca_file": certificates.authority, "email_concurrency": 4}
    async with harness.dispatching(EMAIL, changes=changes):
        rows = await harness.finished(*ids, gone, later, within=40)
    assert {row["outcome"] for row in rows[:30]} == {"SENT"}
    assert [(row["outcome"], row["attempt_count"]) for row in rows[30:]] == [("UNDELIVERABLE", 1), ("EXHAUSTED", 5)]

    assert exim.log().count(" K ") == 30, "each was sent in one chunk"
    received = exim.received()
    assert {each.mail["Message-ID"].strip("<>") for each in received} == {
        row["provider_message_id"] for row in rows[:30]
    }
    for each in received:
        mail = each.mail
        assert "-received_protocol esmtpsa" in each.notes
        assert f"-auth_id {LOGIN[0]}" in each.notes
        assert mail["Subject"] == "Prenotazione confermata - già 🍝"
        assert mail["Auto-Submitted"] == "auto-generated"
        plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
        assert plain is not None
        assert html is not None
        assert f"\n\n{text}\n\n" in plain.get_content().replace("\r\n", "\n")
        assert "🍝" in unescape(html.get_content())
        assert not mail.defects
