"""The event loop and the fixtures of the gateway's tests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from pydantic import SecretStr

from tablebell.rabbit import Broker
from tablebell.testing.chromium import Chromium, chromium_process, open_chromium

from .harness import RunningGateway, StartGateway, running_gateway
from .inbox_api import InboxApi, open_inbox_api


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Use uvloop as in production: its transports buffer differently from asyncio's."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_gateway(amqp_url: SecretStr, broker: Broker) -> AsyncIterator[StartGateway]:
    """Start gateways with changed settings."""
    started = []

    async def start(**settings: Any) -> RunningGateway:
        context = running_gateway(amqp_url, broker, **settings)
        running = await context.__aenter__()
        started.append(context)
        return running

    yield start
    for context in reversed(started):
        await context.__aexit__(None, None, None)


@pytest.fixture
async def gateway(start_gateway: StartGateway) -> RunningGateway:
    return await start_gateway()


@pytest.fixture
def revoked_file(tmp_path: Path) -> Path:
    path = tmp_path / "revoked"
    path.touch()
    return path


@pytest.fixture
async def api(broker: Broker) -> AsyncIterator[InboxApi]:
    async with open_inbox_api(broker) as api:
        yield api


@pytest.fixture(scope="session")
def chromium_port() -> Iterator[int]:
    with chromium_process() as port:
        yield port


@pytest.fixture
async def chromium(chromium_port: int) -> AsyncIterator[Chromium]:
    """All tests share one browser. Each test has its own tabs."""
    async with open_chromium(chromium_port) as browser:
        yield browser
