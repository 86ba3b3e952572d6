"""/ws: delivery, invalid messages, limits and origins."""

import asyncio
import json
import time

import pytest
from websockets.exceptions import InvalidStatus

from tablebell.testing.frames import notification
from tablebell.testing.tokens import token

from .harness import RunningGateway, StartGateway, close_code, receive


async def test_users_receive_their_own_frames_in_all_tabs_and_no_others(gateway: RunningGateway) -> None:
    tabs = [await gateway.sign_in("RESTAURANT_USER:50") for _ in range(3)]
    colleague = await gateway.sign_in("RESTAURANT_USER:51")
    namesake = await gateway.sign_in("CUSTOMER:50")
    await gateway.publish(
        notification(1, "RESTAURANT_USER:50", "RESTAURANT_USER:51"),
        notification(2, "RESTAURANT_USER:50"),
        notification(3, "CUSTOMER:50", "RESTAURANT_USER:99"),
    )
    for tab in tabs:
        assert [(await receive(tab))["id"] for _ in range(2)] == [1, 2]
    assert (await receive(colleague))["id"] == 1
    assert (await receive(namesake))["id"] == 3
    await gateway.publish(notification(4, "RESTAURANT_USER:50", "RESTAURANT_USER:51", "CUSTOMER:50"))
    for client in (*tabs, colleague, namesake):
        assert (await receive(client))["id"] == 4


async def test_a_frame_arrives_with_the_published_text(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    frame = notification(7, "RESTAURANT_USER:50", body='Zoë "€" \\ 🍕\n')
    await gateway.publish(frame)
    assert await asyncio.wait_for(client.recv(), 5) == frame.text.decode()


async def test_nothing_is_delivered_before_the_token_is_verified(gateway: RunningGateway) -> None:
    silent = await gateway.open()
    signed_in = await gateway.sign_in()
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(signed_in))["id"] == 1
    with pytest.raises(TimeoutError):
        await receive(silent, within=0.2)


async def test_ping_is_answered_and_unknown_types_are_ignored(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    await client.send('{"type":"from-the-future"}')
    await client.send('{"type":"ping"}')
    assert await receive(client) == {"type": "pong"}


INVALID_MESSAGES: dict[str | bytes, int] = {
    '{"type":"auth"}': 4401,
    '{"type":"auth","token":7}': 4401,
    '{"type":"ping"}': 4401,
    "no json": 1007,
    '["auth"]': 1007,
    '{"type":["auth"]}': 1007,
    "{" * 10_000: 1007,
    b"\x00\xff binary": 1003,
    "x" * 20_000: 1009,
}


async def test_an_invalid_message_has_its_close_code_and_does_not_affect_others(gateway: RunningGateway) -> None:
    neighbour = await gateway.sign_in()
    codes = {}
    for sent in INVALID_MESSAGES:
        client = await gateway.open()
        await client.send(sent)
        codes[sent] = await close_code(client)
    assert codes == INVALID_MESSAGES
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(neighbour))["id"] == 1


async def test_an_invalid_message_after_auth_closes_too(gateway: RunningGateway) -> None:
    for sent, code in (("x" * 20_000, 1009), (b"binary", 1003), ("no json", 1007)):
        client = await gateway.sign_in()
        await client.send(sent)
        assert await close_code(client) == code


async def test_a_fragmented_message_is_assembled(gateway: RunningGateway) -> None:
    client = await gateway.open()
    text = json.dumps({"type": "auth", "token": token()})
    await client.send([text[:10], text[10:50], text[50:]])
    assert (await receive(client))["type"] == "ready"


async def test_a_flood_of_frames_closes_with_1008_and_does_not_affect_others(gateway: RunningGateway) -> None:
    neighbour = await gateway.sign_in("RESTAURANT_USER:51")
    flooding = await gateway.sign_in("RESTAURANT_USER:50")
    raw = flooding.transport
    small = b'{"type":"x"}'
    raw.write((bytes([0x81, 0x80 + len(small), 0, 0, 0, 0]) + small) * 100_000)
    longest = 0.0
    for number in range(1, 21):
        started = time.perf_counter()
        await gateway.publish(notification(number, "RESTAURANT_USER:51"))
        assert (await receive(neighbour))["id"] == number
        longest = max(longest, time.perf_counter() - started)
    assert await close_code(flooding) in (1008, 1006)  # a peer that only writes may never read the code
    assert longest < 2.0
    assert 'gateway_closes_total{code="1008"} 1.0' in await gateway.metrics()


async def test_an_incomplete_handshake_times_out(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(auth_seconds=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port)
    writer.write(b"GET /ws HTTP/1.1\r\nHost:")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_a_foreign_origin_is_refused_before_the_handshake(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(ws_allowed_origins="https://staff.example, https://other.example/")
    for origin in ("https://evil.example", "null", "https://staff.example.evil.example", "http://staff.example"):
        with pytest.raises(InvalidStatus) as refused:
            await gateway.open(origin=origin)
        assert refused.value.response.status_code == 403


async def test_allowed_origins_own_pages_and_clients_without_an_origin_are_accepted(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(ws_allowed_origins="https://staff.example, https://other.example/")
    for origin in ("https://staff.example", "https://other.example", gateway.http_url, None):
        await gateway.open(origin=origin)


async def test_too_many_connections_of_one_user_close_with_4429(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_connections_per_user=2)
    tabs = [await gateway.sign_in() for _ in range(2)]
    third = await gateway.open()
    await third.send(json.dumps({"type": "auth", "token": token()}))
    assert await close_code(third) == 4429
    await gateway.sign_in("RESTAURANT_USER:51")
    await tabs[0].close()
    await gateway.sign_in()


async def test_too_many_connections_in_total_close_with_4429(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(max_connections=2)
    await gateway.sign_in("RESTAURANT_USER:50")
    await gateway.sign_in("RESTAURANT_USER:51")
    third = await gateway.open()
    await third.send(json.dumps({"type": "auth", "token": token("RESTAURANT_USER:52")}))
    assert await close_code(third) == 4429


async def test_a_user_with_tabs_on_two_gateways_receives_everything_on_both(start_gateway: StartGateway) -> None:
    first, second = await start_gateway(), await start_gateway()
    tabs = [await first.sign_in(), await second.sign_in()]
    await first.publish(*(notification(number, "RESTAURANT_USER:50") for number in range(50)))
    for tab in tabs:
        assert [(await receive(tab))["id"] for _ in range(50)] == list(range(50))


async def test_metrics_count_connections_frames_and_lag(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    before = await metric_values(gateway)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"), notification(2, "RESTAURANT_USER:99"))
    assert (await receive(client))["id"] == 1
    after = await metric_values(gateway)
    assert after['gateway_connections{protocol="json"}'] == 1
    assert after["gateway_users"] == 1
    assert after["gateway_feed_live"] == 1
    assert after["gateway_frames_total"] - before["gateway_frames_total"] == 2
    assert after["gateway_frames_sent_total"] - before["gateway_frames_sent_total"] == 1
    assert after["gateway_lag_seconds_count"] - before["gateway_lag_seconds_count"] == 1
    assert 0 <= after["gateway_lag_seconds_sum"] - before["gateway_lag_seconds_sum"] < 5


async def metric_values(gateway: RunningGateway) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in (await gateway.metrics()).splitlines() if line.startswith("gateway_")]
    return {name: float(value) for name, _, value in lines}
