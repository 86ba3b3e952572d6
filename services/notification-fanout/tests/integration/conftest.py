from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.rabbit import Broker
from tablebell.testing import Database

from .harness import Harness


@pytest.fixture
async def harness(database: Database, pool: Pool, broker: Broker, amqp_url: SecretStr) -> AsyncIterator[Harness]:
    harness = Harness(database, pool, broker, amqp_url)
    await harness.publish()
    yield harness
    await harness.publisher.close()
