"""The sandbox as a process: settings from the environment, signals."""

import asyncio
import os
import re
import signal
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import aiosmtplib
import httpx
import pytest
import trustme

from tablebell_sandbox.service_account import ServiceAccount

PORTS = ("PORT", "SMTP_PORT", "SMS_PORT", "FCM_PORT", "SLACK_PORT")
FREE_PORTS = {f"SANDBOX_{name}": "0" for name in PORTS}


async def start(*arguments: str, **settings: str) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tablebell_sandbox",
        *arguments,
        env=environment | settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(*arguments: str, **settings: str) -> tuple[int | None, str, str]:
    process = await start(*arguments, **settings)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@dataclass
class Serving:
    process: asyncio.subprocess.Process
    log: asyncio.StreamReader
    web_url: str
    smtp_port: int


@asynccontextmanager
async def serving(**settings: str) -> AsyncIterator[Serving]:
    """Starts the sandbox and reads its ports from the first log line."""
    process = await start(**FREE_PORTS | settings)
    assert process.stderr is not None
    try:
        said = ""
        while "sandbox_started" not in said:
            said = (await process.stderr.readline()).decode()
            assert said, "it ended before it started"
        web, smtp = re.findall(r"web=(\S+) EMAIL=(\d+)", said)[0]
        yield Serving(process, process.stderr, web, int(smtp))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_process_quickly_with_clients_connected(stop: signal.Signals) -> None:
    async with serving() as served, httpx.AsyncClient() as http:
        assert (await http.get(f"{served.web_url}/health/ready")).is_success
        reader, writer = await asyncio.open_connection("127.0.0.1", served.smtp_port)
        assert (await reader.readline()).startswith(b"220 ")
        sent = time.monotonic()
        served.process.send_signal(stop)
        assert await served.process.wait() == 0
        assert time.monotonic() - sent < 3
        log = (await served.log.read()).decode()
        writer.close()
    (line,) = log.splitlines()
    assert "sandbox_stopped" in line


@pytest.mark.parametrize("name", PORTS)
async def test_a_port_in_use_gives_one_message_and_exit_code_1(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = FREE_PORTS | {f"SANDBOX_{name}": str(port)}
        code, _, err = await run("serve", **ports)

    assert code == 1
    expected = f"tablebell-sandbox: cannot listen on 127.0.0.1:{port} (SANDBOX_{name}): Address already in use"
    assert err.strip() == expected


async def test_one_message_names_all_wrong_settings() -> None:
    code, _, err = await run(SANDBOX_PORT="eighty", SANDBOX_MAX_MESSAGES="0")

    assert code == 1
    (line,) = err.splitlines()
    assert "SANDBOX_PORT" in line
    assert "SANDBOX_MAX_MESSAGES" in line


async def test_help_names_the_commands() -> None:
    code, out, _ = await run("--help")

    assert code == 0
    assert "serve" in out
    assert "service-account" in out


async def test_a_service_account_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    uri = "http://127.0.0.1:8027/token"
    code, _, err = await run("service-account", "--project", "demo", "--token-uri", uri, "--out", str(file))

    assert (code, err) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    account = ServiceAccount.read(file)
    assert (account.project_id, account.token_uri) == ("demo", uri)


async def test_an_existing_service_account_can_be_kept(tmp_path: Path) -> None:
    """A new key would lock out clients with the old one."""
    file = tmp_path / "account.json"
    arguments = (
        "service-account",
        "--project",
        "demo",
        "--token-uri",
        "http://127.0.0.1:8027/token",
        "--out",
        str(file),
    )
    await run(*arguments, "--keep")
    first = file.read_text()
    await run(*arguments, "--keep")
    assert file.read_text() == first
    await run(*arguments)
    assert file.read_text() != first


async def test_an_invalid_service_account_stops_the_process(tmp_path: Path) -> None:
    file = tmp_path / "account.json"
    file.write_text("{}")
    code, _, err = await run(SANDBOX_FCM_CREDENTIALS_FILE=str(file), **FREE_PORTS)

    assert code == 1
    assert "is not a service account's file" in err
    assert len(err.splitlines()) == 1


async def test_starttls_and_an_outage_work_on_the_event_loop_of_the_process(
    tmp_path: Path, letter: EmailMessage
) -> None:
    """The process uses uvloop; the in-process tests use asyncio's loop."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    files = {"SANDBOX_SMTP_CERT_FILE": str(tmp_path / "both.pem"), "SANDBOX_SMTP_KEY_FILE": str(tmp_path / "both.pem")}
    async with serving(SANDBOX_SMTP_TLS="starttls", **files) as served, httpx.AsyncClient() as http:
        client = aiosmtplib.SMTP(hostname="127.0.0.1", port=served.smtp_port, start_tls=True, tls_context=context)
        await client.connect()
        await client.send_message(letter)
        await http.put(f"{served.web_url}/api/faults/EMAIL", json=[{"kind": "refuse"}])
        with pytest.raises(aiosmtplib.SMTPServerDisconnected):
            await client.noop()
        with pytest.raises(aiosmtplib.SMTPConnectError):
            await client.connect()
        await http.delete(f"{served.web_url}/api/faults/EMAIL")
        await client.connect()
        await client.send_message(letter)
        await client.quit()
        counts = (await http.get(f"{served.web_url}/api/counts")).json()
    assert counts["EMAIL"] == {"accepted": 2, "refused": 0}
