"""A harness per test: a database, the sandbox on free ports, and the dispatcher's own permissions."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database
from tablebell_sandbox.testing import running_sandbox

from .harness import Harness


@pytest.fixture
async def harness(database: Database, pool: Pool, tmp_path: Path) -> AsyncIterator[Harness]:
    credentials = tmp_path / "service-account.json"
    async with (
        running_sandbox() as sandbox,
        open_pool(database.url_of("channel_dispatcher"), "test-dispatcher", size=10) as service,
    ):
        sandbox.write_service_account(credentials)
        yield Harness(pool, service, sandbox, credentials)
