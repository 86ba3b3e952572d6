"""Erlang's port mapper, one per instance. RabbitMQ would otherwise share the machine's, or leave one running."""

import asyncio
import signal

from tablebell_local.instance import Instance
from tablebell_local.ports import PortRegistry
from tablebell_local.process import ManagedProcess
from tablebell_local.programs import Programs

NAMES_REQUEST = b"\x00\x01n"


class Epmd(ManagedProcess):
    start_limit = 10.0
    stop_steps = ((signal.SIGTERM, 2.0),)

    def __init__(self, instance: Instance, ports: PortRegistry, programs: Programs) -> None:
        super().__init__("epmd", instance, ports, {"epmd": 26675})
        self._programs = programs

    def command(self) -> list[str]:
        return [str(self._programs.epmd), "-port", str(self.ports["epmd"]), "-address", "127.0.0.1"]

    def settings(self) -> dict[str, str]:
        return {}

    async def problem(self) -> str | None:
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.ports["epmd"])
                writer.write(NAMES_REQUEST)
                await reader.readexactly(4)  # the response starts with the port
                writer.close()
        except (OSError, TimeoutError, EOFError) as error:
            return f"no connection at {self.address}: {error}"
        return None
