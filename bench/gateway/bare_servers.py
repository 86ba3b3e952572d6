"""Servers that measure ceilings: `python -m bench.gateway.bare_servers KIND PORT`.

websockets   a plain server of that library without compression: memory per idle connection
loop         a loop that writes the same frame to every socket, as often as the first client requests
"""

import asyncio
import base64
import hashlib
import sys
from itertools import chain, repeat
from typing import cast

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Frame, Opcode

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BATCH = 500


async def hold_websockets(port: int) -> None:
    async def hold(socket: ServerConnection) -> None:
        await socket.send("ready")
        await socket.wait_closed()

    async with serve(hold, "127.0.0.1", port, compression=None):
        await asyncio.Future()


class Socket(asyncio.Protocol):
    transports: list[asyncio.Transport] = []  # noqa: RUF012 - shared by the whole script
    writing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not a subclass
        self._upgraded = False

    def data_received(self, data: bytes) -> None:
        if self._upgraded:
            size = 4 if data[1] == 0xFE else 2
            rounds, _, text = data[size + 4 :].partition(b" ")
            Socket.writing = asyncio.create_task(write(int(rounds), text))
            return
        self._upgraded = True
        key = data.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest())
        self._transport.write(b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\nready")
        Socket.transports.append(self._transport)

    def connection_lost(self, _: Exception | None) -> None:
        if self._upgraded:
            Socket.transports.remove(self._transport)


async def write(rounds: int, text: bytes) -> None:
    frame = Frame(Opcode.TEXT, text).serialize(mask=False)
    for number, transport in enumerate(chain.from_iterable(repeat(Socket.transports, rounds))):
        transport.write(frame)
        if number % BATCH == BATCH - 1:
            await asyncio.sleep(0)  # as between the gateway's messages: the loop must run to write


async def write_on_demand(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Socket, "127.0.0.1", port, backlog=4_096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run({"websockets": hold_websockets, "loop": write_on_demand}[sys.argv[1]](int(sys.argv[2])))
