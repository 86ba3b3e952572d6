"""Stalled peers, dead peers, deploys and a RabbitMQ that goes away: nobody else notices, and it heals by itself."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from tablebell.rabbit import Broker
from tablebell.testing import Servers, eventually
from tablebell.topology import LIVE_EXCHANGE
from ws_gateway.testing import (
    AUDIENCE,
    SECRET,
    RunningGateway,
    StartGateway,
    close_code,
    free_port,
    gateway_process,
    notification,
    receive,
    token,
)


async def stalled_client(gateway: RunningGateway, person: str) -> socket.socket:
    """Signs in and never reads again."""
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


async def test_one_stalled_client_among_many_is_closed_with_4008_and_nobody_else_notices(
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


async def test_a_large_batch_for_one_who_reads_is_not_too_much(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(send_buffer_bytes=100_000)
    client = await gateway.sign_in()
    await gateway.publish(*(notification(n, "RESTAURANT_USER:50", body="x" * 1_000) for n in range(100)))
    assert [(await receive(client))["id"] for _ in range(100)] == list(range(100))


async def test_a_dead_peer_is_found_by_ping_and_a_live_one_is_kept(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(ping_seconds=0.5)
    alive = await gateway.sign_in("RESTAURANT_USER:50")  # the library answers pings
    dead = await stalled_client(gateway, "RESTAURANT_USER:51")
    await eventually(lambda: _metric(gateway, "gateway_users", 2.0))
    await eventually(lambda: _metric(gateway, "gateway_users", 1.0))
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(alive))["id"] == 1
    dead.close()


async def test_dead_peers_are_found_within_a_minute_by_default(gateway: RunningGateway) -> None:
    assert 2 * gateway.settings.ping_seconds + 1 < 60


async def test_a_message_that_nobody_can_read_is_dropped_and_the_next_arrives(
    gateway: RunningGateway, broker: Broker
) -> None:
    client = await gateway.sign_in()
    channel = await broker.open_channel(confirms=True)
    underlay = await channel.get_underlay_channel()
    for rubbish in (b"", b"{}", b"\xff", b"[1]", b'[["RESTAURANT_USER:50","x"]]', b'[[["a"],1]]'):
        await underlay.basic_publish(rubbish, exchange=LIVE_EXCHANGE)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(client))["id"] == 1
    assert await _metric(gateway, 'gateway_dropped_total{reason="unreadable"}', 6.0)


async def test_one_bounded_exclusive_queue_per_process_whatever_the_number_of_users(
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
async def test_rabbitmq_gone_is_told_connections_stay_and_it_heals_by_itself(
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
async def test_a_feed_whose_queue_is_deleted_is_told_and_gets_another_within_seconds(
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


async def test_an_error_that_nobody_foresaw_in_the_connection_to_rabbitmq_ends_the_service() -> None:
    """The certificate in this URL cannot be decoded: that is no outage, and no waiting mends it."""
    environment = {
        **os.environ,
        "AMQP_URL": "amqp://tablebell:nothing@127.0.0.1:1/?cadata=x",
        "JWT_SECRET": SECRET,
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


async def test_a_deploy_is_not_ready_refuses_and_closes_with_1012_spread_over_the_drain_time(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(drain_seconds=4.0)
    clients = [await gateway.sign_in(f"RESTAURANT_USER:{number}") for number in range(50, 70)]
    closed: list[float] = []

    async def ends(index: int) -> None:
        assert await close_code(clients[index]) == 1012
        closed.append(time.monotonic() - stopped)

    stopped = time.monotonic()
    gateway.stop.request()
    ending = asyncio.gather(*(ends(index) for index in range(len(clients))))
    async with httpx.AsyncClient() as http:
        answer = await http.get(f"{gateway.http_url}/health/ready")
    assert (answer.status_code, answer.json()["because"]) == (503, {"service": "stopping"})
    with pytest.raises(InvalidStatus) as refused:
        await gateway.open()
    assert refused.value.response.status_code == 503
    still_open = [f"RESTAURANT_USER:{number}" for number in range(50, 70)]
    await gateway.publish(notification(1, *still_open))
    received = 0
    for client in clients:
        with contextlib.suppress(Exception):
            received += (await receive(client, within=1))["id"] == 1
    await ending
    assert received > 0  # who is not closed yet still hears
    assert closed[-1] - closed[0] > 1.5
    assert max(later - earlier for earlier, later in itertools.pairwise(closed)) < 1.5


async def test_sigterm_closes_with_1012_and_exits_with_0(amqp_url: SecretStr, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    async with gateway_process(amqp_url, port, log) as process, connect(f"ws://127.0.0.1:{port}/ws") as client:
        await client.send(json.dumps({"type": "auth", "token": token()}))
        assert (await receive(client))["type"] == "ready"
        process.send_signal(signal.SIGTERM)
        assert await close_code(client) == 1012
        assert await asyncio.wait_for(process.wait(), 10) == 0
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert [event for event in events if event.startswith("socket_")] == ["socket_opened", "socket_closed"]


async def test_kill_9_leaves_no_queue_behind_and_the_next_process_serves(
    amqp_url: SecretStr, broker: Broker, servers: Servers, tmp_path: Path
) -> None:
    port = free_port()
    async with gateway_process(amqp_url, port, tmp_path / "log") as process:
        process.kill()
        await process.wait()
    vhost = urlsplit(amqp_url.get_secret_value()).path[1:]

    async def no_queue() -> bool:
        async with httpx.AsyncClient(base_url=servers.management_url, timeout=10) as http:
            return bool((await http.get(f"/api/queues/{vhost}")).json() == [])

    await eventually(no_queue, every=0.2)
    async with gateway_process(amqp_url, port, tmp_path / "log"), connect(f"ws://127.0.0.1:{port}/ws") as client:
        await client.send(json.dumps({"type": "auth", "token": token()}))
        assert (await receive(client))["type"] == "ready"


def test_wrong_settings_are_named_together_at_the_start() -> None:
    wrong = {"PATH": os.environ["PATH"], "PORT": "no", "MAX_CONNECTIONS": "0", "PUBLIC_API_URL": "nowhere"}
    ended = subprocess.run([sys.executable, "-m", "ws_gateway"], env=wrong, capture_output=True, text=True, check=False)
    assert ended.returncode == 78
    for name in ("PORT", "MAX_CONNECTIONS", "PUBLIC_API_URL", "AMQP_URL", "JWT_AUDIENCE"):
        assert name in ended.stderr


async def _metric(gateway: RunningGateway, name: str, value: float) -> bool:
    return f"\n{name} {value}" in await gateway.metrics()
