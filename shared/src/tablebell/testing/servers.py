"""The PostgreSQL and RabbitMQ servers of `make test`."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import pytest
from pydantic import SecretStr

from tablebell.topology import LIVE_EXCHANGE, LIVE_EXCHANGE_TYPE


@dataclass(frozen=True, slots=True)
class Servers:
    database_url: str
    amqp_url: str
    management_url: str
    control: tuple[str, ...]

    @classmethod
    def from_environment(cls) -> Self:
        names = ("TEST_DATABASE_URL", "TEST_AMQP_URL", "TEST_AMQP_MANAGEMENT_URL", "TEST_STACK")
        values = [os.environ.get(name, "") for name in names]
        if not all(values):
            pytest.exit("the tests need PostgreSQL and RabbitMQ: run them with `make test`", returncode=4)
        return cls(values[0], values[1], values[2], tuple(shlex.split(values[3])))

    async def rabbitmq(self, verb: str) -> None:
        """Start, stop, restart or kill the broker, and wait until it is done."""
        await self._control("rabbitmq", verb)

    async def postgres(self, verb: str) -> None:
        await self._control("postgres", verb)

    async def rabbitmqctl(self, *arguments: str) -> None:
        await self._control("rabbitmqctl", "--", *arguments)

    @asynccontextmanager
    async def alarm(self) -> AsyncIterator[None]:
        """Raise RabbitMQ's memory alarm: it accepts no messages from publishers."""
        try:
            await self.rabbitmqctl("set_vm_memory_high_watermark", "0")
            yield
        finally:
            await self.rabbitmqctl("set_vm_memory_high_watermark", "0.4")

    async def create_vhost(self, name: str) -> SecretStr:
        """Create a vhost and return its URL."""
        async with httpx.AsyncClient(base_url=self.management_url, timeout=30) as http:
            answer = await http.put(f"/api/vhosts/{quote(name, safe='')}")
            answer.raise_for_status()
            user = quote(urlsplit(self.amqp_url).username or "", safe="")
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            answer = await http.put(f"/api/permissions/{quote(name, safe='')}/{user}", json=everything)
            answer.raise_for_status()
            # As in broker_users.definitions: a gateway may not declare it.
            live = {"type": LIVE_EXCHANGE_TYPE, "durable": True}
            answer = await http.put(f"/api/exchanges/{quote(name, safe='')}/{LIVE_EXCHANGE}", json=live)
            answer.raise_for_status()
        return SecretStr(urlunsplit(urlsplit(self.amqp_url)._replace(path="/" + quote(name, safe=""))))

    async def delete_vhost(self, name: str) -> None:
        async with httpx.AsyncClient(base_url=self.management_url, timeout=30) as http:
            await http.delete(f"/api/vhosts/{quote(name, safe='')}")

    async def _control(self, part: str, *words: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *self.control, part, *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, f"{part} {words}: {output.decode()}"
