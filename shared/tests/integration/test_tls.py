"""PostgreSQL with `sslmode=verify-full` and RabbitMQ with `amqps://`, with certificates of a private authority."""

import asyncio
import os
import shutil
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import asyncpg
import pytest
import trustme
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.outbox import Level
from tablebell.postgres import connect, open_pool
from tablebell.rabbit import Confirmed, Consumer, Publisher, open_broker
from tablebell.testing import Database, Servers, eventually, free_port
from tablebell.topology import DEAD_QUEUE, declare_events
from tablebell.wakeups import WakeupListener

from .test_rabbit import QUEUE, Inbox, message

IS_ENCRYPTED = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
REFUSED = "certificate verify failed"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return tmp_path / "ca.pem"


@pytest.fixture
def untrusted(tmp_path: Path) -> Path:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other-ca.pem"))
    return tmp_path / "other-ca.pem"


def write_certificate(authority: trustme.CA, directory: Path) -> tuple[Path, Path]:
    """A certificate for the name `localhost`, and not for 127.0.0.1. The owner of the directory can read it."""
    issued = authority.issue_cert("localhost")
    certificate, key = directory / "tls-certificate.pem", directory / "tls-key.pem"
    issued.cert_chain_pems[0].write_to_path(str(certificate))
    key.touch(mode=0o600)
    issued.private_key_pem.write_to_path(str(key))
    owner = directory.stat()
    for file in (certificate, key):
        shutil.chown(file, owner.st_uid, owner.st_gid)
    return certificate, key


@pytest.fixture
async def tls_database(servers: Servers, database: Database, authority: trustme.CA) -> AsyncIterator[Database]:
    """PostgreSQL offers TLS during the test."""
    owner = await asyncpg.connect(servers.database_url)
    directory = Path(await owner.fetchval("SHOW data_directory"))
    certificate, key = write_certificate(authority, directory)
    for name, value in {"ssl_cert_file": certificate, "ssl_key_file": key, "ssl": "on"}.items():
        await owner.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await owner.execute("SELECT pg_reload_conf()")
    yield database
    for name in ("ssl", "ssl_cert_file", "ssl_key_file"):
        await owner.execute(f"ALTER SYSTEM RESET {name}")
    await owner.execute("SELECT pg_reload_conf()")
    await owner.close()
    certificate.unlink()
    key.unlink()


def verified(url: SecretStr, ca: Path, host: str = "localhost") -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    login, _, _ = parts.netloc.rpartition("@")
    options = urlencode({"sslmode": "verify-full", "sslrootcert": str(ca)})
    return SecretStr(parts._replace(netloc=f"{login}@{host}:{parts.port}", query=options).geturl())


async def migrate(url: SecretStr) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tablebell_migrations", "upgrade",
        env=os.environ | {"DATABASE_URL": url.get_secret_value()},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_pools_listeners_and_migrations_verify_the_database(
    tls_database: Database, trusted: Path, stop: Stop
) -> None:
    url = verified(tls_database.url, trusted)

    async with open_pool(url, "test", size=1) as pool:
        await eventually(lambda: pool.fetchval(IS_ENCRYPTED))  # the reload takes a moment
    connection = await connect(url, "test")
    assert await connection.fetchval(IS_ENCRYPTED)
    await connection.close()
    listener = WakeupListener(url, "test")
    listener.subscribe(Level.EVENT)
    running = asyncio.create_task(listener.run(stop))
    await eventually(lambda: listener.connected)
    stop.request()
    await running
    code, output = await migrate(url)
    assert code == 0, output


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another authority", "another name"])
async def test_a_database_that_cannot_prove_its_name_is_refused(
    tls_database: Database, trusted: Path, untrusted: Path, host: str
) -> None:
    ready = await connect(verified(tls_database.url, trusted), "test")
    await ready.close()
    url = verified(tls_database.url, untrusted if host == "localhost" else trusted, host)

    async with open_pool(url, "test", size=1) as pool:
        with pytest.raises(ssl.SSLCertVerificationError):
            await pool.fetchval("SELECT 1")
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(url, "test")
    code, output = await migrate(url)
    assert code == 1
    assert REFUSED in output or "does not match host name" in output


async def test_an_unencrypted_database_is_refused(database: Database, trusted: Path) -> None:
    with pytest.raises(ConnectionError, match="SSL"):
        await connect(verified(database.url, trusted), "test")


@pytest.fixture
async def tls_port(servers: Servers, authority: trustme.CA, tmp_path: Path) -> AsyncIterator[int]:
    """RabbitMQ listens with TLS on another port during the test."""
    certificate, key = write_certificate(authority, tmp_path)
    port = free_port()
    listener = f'{{"127.0.0.1", {port}}}'
    options = f'[{{certfile, "{certificate}"}}, {{keyfile, "{key}"}}]'
    await servers.rabbitmqctl("eval", f"rabbit_networking:start_ssl_listener({listener}, {options}, 2).")
    yield port
    await servers.rabbitmqctl("eval", f"rabbit_networking:stop_tcp_listener({listener}).")


def amqps(url: SecretStr, port: int, ca: Path, host: str = "localhost") -> SecretStr:
    parts = urlsplit(url.get_secret_value())
    login, _, _ = parts.netloc.rpartition("@")
    whole = parts._replace(scheme="amqps", netloc=f"{login}@{host}:{port}", query=urlencode({"cafile": str(ca)}))
    return SecretStr(whole.geturl())


async def test_services_verify_the_broker_publish_and_consume(
    amqp_url: SecretStr, tls_port: int, trusted: Path
) -> None:
    url, inbox, stop = amqps(amqp_url, tls_port, trusted), Inbox(), Stop()
    async with open_broker(url, "test") as consuming, open_broker(url, "test", for_publishing=True) as publishing:
        await eventually(lambda: consuming.connected and publishing.connected)
        messages = [message(str(number).encode() * 1_000) for number in range(300)]
        publisher = Publisher(publishing, declare_events, window=100)
        assert await publisher.publish_all(messages) == [Confirmed()] * 300
        consumer = Consumer(consuming, QUEUE, DEAD_QUEUE, inbox, declare_events)
        running = asyncio.create_task(consumer.run(stop))
        await eventually(lambda: inbox.bodies == [each.body for each in messages])
        stop.request()
        await running
        await publisher.close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["another authority", "another name"])
async def test_a_broker_that_cannot_prove_its_name_is_refused(
    amqp_url: SecretStr,
    tls_port: int,
    trusted: Path,
    untrusted: Path,
    host: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = amqps(amqp_url, tls_port, untrusted if host == "localhost" else trusted, host)
    printed = ""

    def is_refused() -> bool:
        nonlocal printed
        printed += capsys.readouterr().out
        return REFUSED in printed

    async with open_broker(url, "test") as broker:
        await eventually(is_refused)
        assert not broker.connected
