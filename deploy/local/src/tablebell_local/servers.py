"""PostgreSQL and RabbitMQ of an instance, together: what everything else stands on."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from tablebell_local.board import Board
from tablebell_local.credentials import load_or_create
from tablebell_local.epmd import Epmd
from tablebell_local.instance import Instance
from tablebell_local.part import Part, bring_up
from tablebell_local.ports import DEV_SERVER_PORTS, PortBook, preferred_somewhere
from tablebell_local.postgres import Postgres
from tablebell_local.processes import find
from tablebell_local.programs import Programs, find_or_install
from tablebell_local.rabbitmq import RabbitMq

PORTS_OF = {
    "postgres": ("postgres",),
    "rabbitmq": ("amqp", "management", "distribution", "prometheus"),
    "epmd": ("epmd",),
}


@dataclass(frozen=True)
class Servers:
    postgres: Postgres
    epmd: Epmd
    rabbitmq: RabbitMq

    @property
    def parts(self) -> tuple[Part, ...]:
        return (self.postgres, self.epmd, self.rabbitmq)

    async def up(self, board: Board) -> None:
        async def broker() -> None:
            await bring_up(self.epmd, board)
            await bring_up(self.rabbitmq, board)

        async with asyncio.TaskGroup() as group:
            group.create_task(bring_up(self.postgres, board))
            group.create_task(broker())

    async def down(self) -> None:
        await asyncio.gather(self.postgres.stop(), self.rabbitmq.stop())
        await self.epmd.stop()
