from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from tablebell.postgres import Pool
from tablebell.testing import Database

from .source import Source
from .stream import Stream, bind_queue, open_stream


@pytest.fixture
async def stream(amqp_url: SecretStr) -> AsyncIterator[Stream]:
    await bind_queue(amqp_url)
    async with open_stream(amqp_url) as stream:
        yield stream


@pytest.fixture
def source(pool: Pool, database: Database) -> Source:
    return Source(pool)
