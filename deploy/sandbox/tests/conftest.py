"""A sandbox per test, on its own ports, and its clients."""

from collections.abc import AsyncIterator
from email.message import EmailMessage

import aiosmtplib
import httpx
import pytest

from tablebell_sandbox.testing import RunningSandbox, running_sandbox

# No test uses https, and loading the system's certificates takes longer than most of these tests.
NO_TLS = False


@pytest.fixture
async def sandbox() -> AsyncIterator[RunningSandbox]:
    async with running_sandbox() as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=10, verify=NO_TLS) as client:
        yield client


@pytest.fixture
async def web(sandbox: RunningSandbox) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=sandbox.web_url, timeout=10, verify=NO_TLS) as client:
        yield client


@pytest.fixture
async def smtp(sandbox: RunningSandbox) -> AsyncIterator[aiosmtplib.SMTP]:
    client = aiosmtplib.SMTP(hostname="127.0.0.1", port=sandbox.smtp_port, start_tls=False, timeout=10)
    await client.connect()
    yield client
    client.close()


@pytest.fixture
def letter() -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = "Nuova prenotazione ricevuta: è per 4"
    message["From"] = "Trattoria da Anna <noreply@example.com>"
    message["To"] = "anna@example.com"
    message["Message-ID"] = "<send-1@example.com>"
    message.set_content("Ciao Anna,\nè arrivata una prenotazione.\n")
    message.add_alternative("<p>Ciao <b>Anna</b></p>", subtype="html")
    return message
