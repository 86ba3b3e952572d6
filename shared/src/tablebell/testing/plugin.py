"""The fixtures of every test in this workspace; pytest loads it by the root pyproject.toml."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from pydantic import SecretStr

from tablebell.lifecycle import Stop
from tablebell.postgres import Pool, open_pool
from tablebell.rabbit import Broker, open_broker
from tablebell.testing.database import Database, copy_template, drop, make_template
from tablebell.testing.servers import Servers
from tablebell.testing.waiting import eventually


def pytest_configure() -> None:
    """Use plain tracebacks: rendering one with local variables takes up to a second."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ]
    )


@pytest.fixture(scope="session")
def servers() -> Servers:
    return Servers.from_environment()


@pytest.fixture(scope="session")
def template(servers: Servers) -> Iterator[str]:
    name = make_template(servers.database_url)
    yield name
    asyncio.run(drop(servers.database_url, name))


@pytest.fixture
async def database(servers: Servers, template: str) -> AsyncIterator[Database]:
    """A migrated database with the demo users, for this test only."""
    database = await copy_template(servers.database_url, template)
    yield database
    await drop(servers.database_url, database.name)


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    """A pool of the database's owner, who may read all tables."""
    async with open_pool(database.url, "test", size=20) as pool:
        yield pool


@pytest.fixture
async def amqp_url(servers: Servers) -> AsyncIterator[SecretStr]:
    """A vhost for this test only, so that a consumer of another test cannot take its messages."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield await servers.create_vhost(name)
    await servers.delete_vhost(name)


@pytest.fixture
async def broker(amqp_url: SecretStr) -> AsyncIterator[Broker]:
    async with open_broker(amqp_url, "test") as broker:
        await eventually(lambda: broker.connected)
        yield broker


@pytest.fixture
def stop() -> Iterator[Stop]:
    stop = Stop()
    yield stop
    stop.request()
