"""One running system for all of these tests: real processes, two of each, with servers and ports of their own."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from chaos.api_client import ApiClient, open_api_client
from chaos.environment import SCALE, ChaosEnvironment
from chaos.store import Connection, connect
from tests.e2e.harness import Table

from tablebell_local.instance import Instance
from tablebell_local.system import System
from tablebell_tools.unlimited import UNLIMITED

INSTANCE = "test-e2e"
# A killed worker's rows are free again after its lease: the tests wait for that.
OVERRIDES = UNLIMITED | {"LEASE_SECONDS": "4", "POLL_SECONDS": "2"}


def start_what_is_missing() -> None:
    scale = [word for name, count in SCALE.items() for word in ("--scale", f"{name}={count}")]
    settings = [word for name, value in OVERRIDES.items() for word in ("--set", f"{name}={value}")]
    command("up", "--standby", *scale, *settings)


def command(*words: str) -> None:
    """In a process of its own, as an operator does it."""
    whole = [sys.executable, "-m", "tablebell_local", "--mode", "local", "--instance", INSTANCE, *words]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def environment() -> Iterator[ChaosEnvironment]:
    command("down")  # what an interrupted run left behind
    start_what_is_missing()
    yield ChaosEnvironment(System(Instance.named(INSTANCE)), OVERRIDES)
    command("down")


@pytest.fixture
async def api(environment: ChaosEnvironment) -> AsyncIterator[ApiClient]:
    async with open_api_client(environment.api_urls, environment.jwt_secret) as api:
        yield api


@pytest.fixture
async def connection(environment: ChaosEnvironment) -> AsyncIterator[Connection]:
    async with connect(environment.database_url) as connection:
        yield connection


@pytest.fixture
def table(environment: ChaosEnvironment, api: ApiClient, connection: Connection) -> Table:
    return Table(api, connection, environment.sandbox_url)
