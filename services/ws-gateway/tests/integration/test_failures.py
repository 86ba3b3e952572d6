"""Stalled peers, dead peers, unreadable messages and RabbitMQ outages: other clients are not affected."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection

from tablebell.rabbit import Broker
from tablebell.testing import Servers, eventually, free_port
from tablebell.testing.frames import notification
from tablebell.testing.tokens import AUDIENCE, PUBLIC_KEY_FILE, token
from tablebell.topology import LIVE_EXCHANGE

from .harness import RunningGateway, StartGateway, receive


async def stalled_client(gateway: RunningGateway, person: str) -> socket.socket:
    """A client that signs in and then stops reading."""
    loop = asyncio.get_running_loop()
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.setblocking(False)
    await loop.sock_connect(peer, ("127.0.0.1", gateway.settings.port))
    handshake = (
        "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    await loop.sock_sendall(peer, handshake.encode())
    auth = json.dumps({"type": "auth", "token": token(person)}).encode()
    await loop.sock_sendall(peer, b"\x81\xfe" + len(auth).to_bytes(2) + b"\0\0\0\0" + auth)
    return peer


async def test_a_stalled_client_is_closed_with_4008_and_the_others_receive_everything(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(send_buffer_bytes=100_000, close_seconds=0.5)
    others = [await gateway.sign_in(f"RESTAURANT_USER:{number}") for number in range(50, 70)]
    stalled = await stalled_client(gateway, "RESTAURANT_USER:70")
    await eventually(lambda: _metric(gateway, "gateway_users", 21.0))
    everyone = [f"RESTAURANT_USER:{number}" for number in range(50, 71)]

    async def read(client: ClientConnection) -> list[int]:
        return [(await receive(client))["id"] for _ in range(60)]

    reading = asyncio.gather(*map(read, others))
    for number in range(60):
        await gateway.publish(notification(number, *everyone, body="x" * 20_000))
    assert await reading == [list(range(60))] * len(others)
    await eventually(lambda: _metric(gateway, 'gateway_closes_total{code="4008"}', 1.0))
    await eventually(lambda: _metric(gateway, "gateway_users", 20.0))
    stalled.close()


async def test_a_large_batch_does_not_close_a_client_that_reads(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(send_buffer_bytes=100_000)
    client = await gateway.sign_in()
    await gateway.publish(*(notification(n, "RESTAURANT_USER:50", body="x" * 1_000) for n in range(100)))
    assert [(await receive(client))["id"] for _ in range(100)] == list(range(100))


async def test_pings_detect_a_dead_peer_and_keep_a_live_one(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(ping_seconds=0.5)
    alive = await gateway.sign_in("RESTAURANT_USER:50")  # the library answers pings
    dead = await stalled_client(gateway, "RESTAURANT_USER:51")
    await eventually(lambda: _metric(gateway, "gateway_users", 2.0))
    await eventually(lambda: _metric(gateway, "gateway_users", 1.0))
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(alive))["id"] == 1
    dead.close()


async def test_an_unreadable_message_is_dropped_and_the_next_arrives(gateway: RunningGateway, broker: Broker) -> None:
    client = await gateway.sign_in()
    channel = await broker.open_channel(confirms=True)
    underlay = await channel.get_underlay_channel()
    for unreadable in (b"", b"{}", b"\xff", b"[1]", b'[["RESTAURANT_USER:50","x"]]', b'[[["a"],1]]'):
        await underlay.basic_publish(unreadable, exchange=LIVE_EXCHANGE)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(client))["id"] == 1
    assert await _metric(gateway, 'gateway_dropped_total{reason="unreadable"}', 6.0)


async def test_a_process_has_one_bounded_exclusive_queue_for_all_users(
    gateway: RunningGateway, servers: Servers
) -> None:
    for number in range(50, 60):
        await gateway.sign_in(f"RESTAURANT_USER:{number}")
    vhost = urlsplit(gateway.settings.amqp_url.get_secret_value()).path[1:]
    async with httpx.AsyncClient(base_url=servers.management_url, timeout=10) as http:
        (queue,) = (await http.get(f"/api/queues/{vhost}")).json()
        bindings = (await http.get(f"/api/exchanges/{vhost}/{LIVE_EXCHANGE}/bindings/source")).json()
    assert queue["exclusive"]
    assert queue["auto_delete"]
    assert queue["arguments"] == {"x-max-length": 10_000, "x-overflow": "drop-head"}
    assert len(bindings) == 1


@pytest.mark.timeout(90)
async def test_a_rabbitmq_outage_keeps_connections_tells_clients_and_recovers(
    gateway: RunningGateway, servers: Servers
) -> None:
    client = await gateway.sign_in()
    await servers.rabbitmq("stop")
    try:
        assert await receive(client, within=30) == {"type": "status", "live": False}
        assert not await gateway.is_ready()
        late = await gateway.sign_in("RESTAURANT_USER:51")
        assert await receive(late) == {"type": "status", "live": False}
    finally:
        await servers.rabbitmq("start")
    for each in (client, late):
        assert await receive(each, within=30) == {"type": "status", "live": True}
    await eventually(gateway.is_ready)
    await eventually(lambda: gateway.broker.connected, within=20)
    await gateway.publish(notification(1, "RESTAURANT_USER:50", "RESTAURANT_USER:51"))
    for each in (client, late):
        assert (await receive(each))["id"] == 1


@pytest.mark.timeout(90)
async def test_a_deleted_queue_is_reported_and_replaced_within_seconds(
    gateway: RunningGateway, servers: Servers, amqp_url: SecretStr
) -> None:
    client = await gateway.sign_in()
    vhost = urlsplit(amqp_url.get_secret_value()).path[1:]
    async with httpx.AsyncClient(base_url=servers.management_url) as http:
        (queue,) = (await http.get(f"/api/queues/{vhost}")).json()
    await servers.rabbitmqctl("delete_queue", queue["name"], f"--vhost={vhost}")
    assert await receive(client, within=5) == {"type": "status", "live": False}
    assert await receive(client, within=5) == {"type": "status", "live": True}
    await eventually(gateway.is_ready)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(client))["id"] == 1


async def test_an_unexpected_error_in_the_connection_to_rabbitmq_ends_the_service() -> None:
    """The certificate in this URL cannot be decoded: that is no outage, and no waiting mends it."""
    environment = {
        **os.environ,
        "AMQP_URL": "amqp://tablebell:nothing@127.0.0.1:1/?cadata=x",
        "JWT_PUBLIC_KEY_FILE": str(PUBLIC_KEY_FILE),
        "JWT_AUDIENCE": AUDIENCE,
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ws_gateway", env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    last = json.loads(output.splitlines()[-1])
    assert process.returncode == 1
    assert last["event"] == "service_died"
    assert "b64decode" in json.dumps(last)


async def _metric(gateway: RunningGateway, name: str, value: float) -> bool:
    return f"\n{name} {value}" in await gateway.metrics()
