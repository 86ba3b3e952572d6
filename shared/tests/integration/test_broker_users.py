"""Each service has a RabbitMQ user with only the permissions that the service needs."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

import aio_pika
import httpx
import pytest
from aio_pika.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic
from pydantic import SecretStr

from tablebell import broker_users
from tablebell.broker_users import OPERATOR, PERMISSIONS, definitions, password_variable, user_name
from tablebell.lifecycle import Stop
from tablebell.rabbit import Broker, Confirmed, Consumer, OutgoingMessage, Publisher, open_broker
from tablebell.testing import Servers, eventually
from tablebell.topology import DEAD_QUEUE, EVENT_EXCHANGE, LIVE_EXCHANGE, declare_events, declare_live, declare_stream

from .test_rabbit import QUEUE, Inbox, depth, message

PASSWORDS = {password_variable(service): f"{service}'s password" for service in PERMISSIONS}
UrlOf = Callable[[str], SecretStr]
Attempt = Callable[[AbstractChannel], Awaitable[object]]


@pytest.fixture
async def url_of(servers: Servers) -> AsyncIterator[UrlOf]:
    """The URL of each service's user at a vhost of this test, which has only what the definitions create."""
    vhost = f"test-{uuid.uuid4().hex[:12]}"
    async with httpx.AsyncClient(base_url=servers.management_url, timeout=30) as http:
        answer = await http.post("/api/definitions", json=definitions(PASSWORDS, vhost))
        assert answer.status_code == 204, answer.text

    def url_of(service: str) -> SecretStr:
        login = f"{user_name(service)}:{quote(PASSWORDS[password_variable(service)])}"
        return SecretStr(f"amqp://{login}@{urlsplit(servers.amqp_url).netloc.rpartition('@')[2]}/{vhost}")

    yield url_of
    await servers.delete_vhost(vhost)


@pytest.fixture
async def topology(url_of: UrlOf) -> None:
    """The exchanges and queues of a running system."""
    async with await aio_pika.connect(url_of(OPERATOR).get_secret_value()) as connection:
        channel = await connection.channel()
        await declare_events(channel)
        await declare_live(channel)


async def run_as(url: SecretStr, attempt: Attempt) -> None:
    async with await aio_pika.connect(url.get_secret_value()) as connection:
        await attempt(await connection.channel(publisher_confirms=True))


def publish(exchange: str, routing_key: str = "") -> Attempt:
    async def attempt(channel: AbstractChannel) -> None:
        underlay = await channel.get_underlay_channel()
        await underlay.basic_publish(b"", exchange=exchange, routing_key=routing_key)

    return attempt


def consume(queue: str) -> Attempt:
    async def attempt(channel: AbstractChannel) -> None:
        await (await channel.get_queue(queue, ensure=False)).get(fail=False)

    return attempt


def declare_queue(name: str | None) -> Attempt:
    return lambda channel: channel.declare_queue(name, exclusive=True)


def delete_queue(name: str) -> Attempt:
    return lambda channel: channel.queue_delete(name)


def delete_exchange(name: str) -> Attempt:
    return lambda channel: channel.exchange_delete(name)


def bind_own_queue(exchange: str) -> Attempt:
    async def attempt(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True, auto_delete=True)
        await queue.bind(exchange, "#")
        await queue.get(fail=False)

    return attempt


@pytest.mark.usefixtures("topology")
@pytest.mark.parametrize(
    ("service", "attempt"),
    [
        ("event-relay", publish(LIVE_EXCHANGE)),
        ("event-relay", publish("", QUEUE)),
        ("event-relay", consume(QUEUE)),
        ("event-relay", consume(DEAD_QUEUE)),
        ("event-relay", declare_queue("another")),
        ("event-relay", declare_queue(None)),
        ("event-relay", delete_queue(DEAD_QUEUE)),
        ("event-relay", delete_exchange(LIVE_EXCHANGE)),
        ("notification-fanout", publish(EVENT_EXCHANGE, "reservation.requested")),
        ("notification-fanout", consume(DEAD_QUEUE)),
        ("notification-fanout", declare_queue("another")),
        ("notification-fanout", bind_own_queue(LIVE_EXCHANGE)),
        ("ws-gateway", publish(LIVE_EXCHANGE)),
        ("ws-gateway", publish(EVENT_EXCHANGE, "reservation.requested")),
        ("ws-gateway", publish("", QUEUE)),
        ("ws-gateway", publish("amq.direct")),
        ("ws-gateway", consume(QUEUE)),
        ("ws-gateway", consume(DEAD_QUEUE)),
        ("ws-gateway", bind_own_queue(EVENT_EXCHANGE)),
        ("ws-gateway", declare_queue("another")),
        ("ws-gateway", declare_live),
        ("ws-gateway", delete_queue(QUEUE)),
        ("ws-gateway", delete_exchange(LIVE_EXCHANGE)),
    ],
)
async def test_a_service_lacks_the_permissions_it_does_not_need(url_of: UrlOf, service: str, attempt: Attempt) -> None:
    with pytest.raises(ChannelAccessRefused):
        await run_as(url_of(service), attempt)


async def test_each_service_can_do_its_work(url_of: UrlOf) -> None:
    inbox, stop = Inbox(), Stop()
    relays, fanouts = url_of("event-relay"), url_of("notification-fanout")
    async with (
        open_broker(relays, "test", for_publishing=True) as relay,
        open_broker(fanouts, "test") as consuming,
        open_broker(fanouts, "test", for_publishing=True) as publishing,
        open_broker(url_of("ws-gateway"), "test") as gateway,
    ):
        await eventually(lambda: all(each.connected for each in (relay, consuming, publishing, gateway)))
        events = [message(b"event"), message(b"poison")]
        assert await Publisher(relay, declare_stream).publish_all(events) == [Confirmed()] * 2

        consumer = Consumer(consuming, QUEUE, DEAD_QUEUE, inbox, declare_events, dead_letters=publishing)
        running = asyncio.create_task(consumer.run(stop))
        await eventually(lambda: inbox.bodies == [b"event"])
        await eventually(partial(is_in, consuming, DEAD_QUEUE))
        stop.request()
        await running

        channel = await gateway.open_channel(confirms=False)
        queue = await channel.declare_queue(exclusive=True, auto_delete=True, arguments={"x-max-length": 10})
        await queue.bind(LIVE_EXCHANGE)
        frame = OutgoingMessage(LIVE_EXCHANGE, "", b"frame", Basic.Properties())
        assert await Publisher(publishing, declare_live).publish(frame) == Confirmed()
        assert (await queue.get()).body == b"frame"


async def is_in(broker: Broker, queue: str) -> bool:
    return await depth(broker, queue) == 1


@pytest.mark.usefixtures("topology")
async def test_an_operator_may_do_everything_within_the_vhost(url_of: UrlOf) -> None:
    for attempt in (publish("", DEAD_QUEUE), consume(DEAD_QUEUE), delete_queue(DEAD_QUEUE), declare_events):
        await run_as(url_of(OPERATOR), attempt)


@pytest.mark.usefixtures("url_of")
@pytest.mark.parametrize("service", PERMISSIONS)
async def test_nobody_is_an_administrator(servers: Servers, service: str) -> None:
    login = (user_name(service), PASSWORDS[password_variable(service)])
    url = urlsplit(servers.management_url)
    async with httpx.AsyncClient(base_url=f"http://{url.hostname}:{url.port}", auth=login) as http:
        assert (await http.put("/api/vhosts/mine")).status_code == 401
        assert (await http.get("/api/overview")).status_code == (200 if service == OPERATOR else 401)


def test_the_definitions_are_written_with_the_passwords_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"

    assert broker_users.main([str(file)], PASSWORDS) == 0

    written = json.loads(file.read_text())
    assert {user["name"] for user in written["users"]} == {user_name(service) for service in PERMISSIONS}
    assert not any(password in file.read_text() for password in PASSWORDS.values())


def test_a_missing_password_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "definitions.json"

    assert broker_users.main([str(file)], PASSWORDS | {"WS_GATEWAY_AMQP_PASSWORD": ""}) == 2

    assert "missing: WS_GATEWAY_AMQP_PASSWORD" in capsys.readouterr().err
    assert not file.exists()
