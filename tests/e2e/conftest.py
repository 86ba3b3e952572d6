"""One running system for all tests: real processes, two replicas each, with their own servers and ports."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from chaos.api_client import ApiClient, open_api_client
from chaos.environment import SCALE, ChaosEnvironment
from chaos.store import Connection, connect
from tests.e2e.harness import ReservationHarness

from tablebell_local.instance import Instance
from tablebell_local.system import System
from tablebell_tools.unlimited import UNLIMITED

INSTANCE = "test-e2e"
# The tests wait until the leases of killed workers expire.
OVERRIDES = UNLIMITED | {"LEASE_SECONDS": "4", "POLL_SECONDS": "2"}


def start_system() -> None:
    scale = [word for name, count in SCALE.items() for word in ("--scale", f"{name}={count}")]
    settings = [word for name, value in OVERRIDES.items() for word in ("--set", f"{name}={value}")]
    command("up", "--standby", *scale, *settings)


def command(*words: str) -> None:
    """Runs the command line as an operator does."""
    whole = [sys.executable, "-m", "tablebell_local", "--mode", "local", "--instance", INSTANCE, *words]
    done = subprocess.run(whole, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def environment() -> Iterator[ChaosEnvironment]:
    command("down")  # an interrupted run may have left processes
    start_system()
    yield ChaosEnvironment(System(Instance.named(INSTANCE)), OVERRIDES)
    command("down")


@pytest.fixture
async def api(environment: ChaosEnvironment) -> AsyncIterator[ApiClient]:
    async with open_api_client(environment.api_urls, environment.tokens) as api:
        yield api


@pytest.fixture
async def connection(environment: ChaosEnvironment) -> AsyncIterator[Connection]:
    async with connect(environment.database_url) as connection:
        yield connection


@pytest.fixture
def table(environment: ChaosEnvironment, api: ApiClient, connection: Connection) -> ReservationHarness:
    return ReservationHarness(api, connection, environment.sandbox_url)
