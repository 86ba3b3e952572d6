"""The HTTP clients of a provider: kept while they work, replaced after a failure."""

from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest

from channel_dispatcher.channels.http import HttpProvider
from channel_dispatcher.outcome import ProviderDown
from tablebell_sandbox.channel import Channel as SandboxChannel

from .harness import Harness

TIMEOUT = 0.3


class Clients:
    def __init__(self) -> None:
        self.opened: list[httpx.AsyncClient] = []

    def open(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=1), trust_env=False)
        self.opened.append(client)
        return client


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    clients = Clients()
    yield clients
    assert all(each.is_closed for each in clients.opened), "none is left open"


async def test_a_client_is_kept_after_an_answer_and_replaced_after_a_failure(
    harness: Harness, clients: Clients
) -> None:
    provider = HttpProvider(clients.open, TIMEOUT)
    post = partial(provider.post, harness.sandbox.slack_url, json={"text": "Tavolo per 4"})
    for _ in range(2):
        assert isinstance(await post(), httpx.Response)
    assert len(clients.opened) == 1
    await harness.sandbox.set_faults(SandboxChannel.SLACK, {"kind": "hang", "count": 1})
    assert isinstance(await post(), ProviderDown)
    assert clients.opened[0].is_closed
    assert isinstance(await post(), httpx.Response)
    assert len(clients.opened) == 2
    await provider.close()


async def test_a_client_with_an_occupied_connection_is_not_used_for_ever(harness: Harness, clients: Clients) -> None:
    """As a request leaves it that was cancelled while its connection was being assigned."""
    provider = HttpProvider(clients.open, TIMEOUT)
    post = partial(provider.post, harness.sandbox.slack_url, json={"text": "Tavolo per 4"})
    assert isinstance(await post(), httpx.Response)
    (client,) = clients.opened
    async with client.stream("POST", harness.sandbox.slack_url, json={"text": "Tavolo per 4"}):
        down = await post()
    assert isinstance(down, ProviderDown)
    assert "PoolTimeout" in down.reason
    assert isinstance(await post(), httpx.Response)
    await provider.close()
