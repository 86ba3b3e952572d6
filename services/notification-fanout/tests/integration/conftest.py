from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.rabbit import Broker
from tablebell.testing import Database

from .harness import Stage


@pytest.fixture
async def stage(database: Database, pool: Pool, broker: Broker, amqp_url: SecretStr) -> AsyncIterator[Stage]:
    stage = Stage(database, pool, broker, amqp_url)
    await stage.tell()
    yield stage
    await stage.publisher.close()
