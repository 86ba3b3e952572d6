"""/stomp with hand-written frames: the behaviour that the standard and clients require."""

import asyncio
import json

import pytest
from websockets.asyncio.client import ClientConnection

from tablebell.testing.frames import notification
from tablebell.testing.tokens import token
from ws_gateway.stomp import Parser, StompFrame, encode

from .harness import RunningGateway, StartGateway, close_code

DESTINATION = "/user/queue/notifications"


async def frame_of(client: ClientConnection) -> StompFrame:
    async with asyncio.timeout(5):
        while True:
            message = await client.recv()
            data = message.encode() if isinstance(message, str) else message
            if frames := Parser(1_000_000).feed(data):
                return frames[0]


async def connected(gateway: RunningGateway, person: str = "RESTAURANT_USER:50", **headers: str) -> ClientConnection:
    client = await gateway.open(gateway.stomp_url, subprotocols=["v12.stomp"])
    headers = {"accept-version": "1.2", "Authorization": f"Bearer {token(person)}", **headers}
    await client.send(encode("CONNECT", headers).decode())
    assert (await frame_of(client)).command == "CONNECTED"
    return client


async def subscribed(gateway: RunningGateway, person: str = "RESTAURANT_USER:50", **headers: str) -> ClientConnection:
    client = await connected(gateway, person)
    subscription = {"id": "sub-0", "destination": DESTINATION, "receipt": "subscribed", **headers}
    await client.send(encode("SUBSCRIBE", subscription).decode())
    assert (await frame_of(client)).headers == {"receipt-id": "subscribed"}
    return client


async def test_one_of_the_offered_subprotocols_is_echoed(gateway: RunningGateway) -> None:
    offers = {
        ("v12.stomp", "v11.stomp", "v10.stomp"): "v12.stomp",
        ("v10.stomp", "v11.stomp"): "v11.stomp",
        ("graphql-ws", "v10.stomp"): "v10.stomp",
        ("graphql-ws",): None,
        (): None,
    }
    clients = {offer: await gateway.open(gateway.stomp_url, subprotocols=offer or None) for offer in offers}
    assert {offer: client.subprotocol for offer, client in clients.items()} == offers


async def test_the_newest_common_version_is_used(gateway: RunningGateway) -> None:
    versions = {"1.0,1.1,1.2": "1.2", "1.1,1.0": "1.1", "1.0": "1.0", None: "1.0"}
    used = {}
    for accepted in versions:
        client = await gateway.open(gateway.stomp_url)
        headers = {"Authorization": f"Bearer {token()}"} | ({"accept-version": accepted} if accepted else {})
        await client.send(encode("CONNECT", headers).decode())  # and no host header
        used[accepted] = (await frame_of(client)).headers["version"]
    assert used == versions


async def test_an_unknown_version_is_an_error(gateway: RunningGateway) -> None:
    client = await gateway.open(gateway.stomp_url)
    await client.send(encode("CONNECT", {"accept-version": "9.9"}).decode())
    assert (await frame_of(client)).command == "ERROR"
    assert await close_code(client) == 1002


async def test_a_message_carries_destination_message_id_and_subscription(gateway: RunningGateway) -> None:
    client = await subscribed(gateway, id="my:sub\n1")
    sent = notification(7, "RESTAURANT_USER:50", body='Zoë "€" 🍕')
    await gateway.publish(sent, notification(8, "RESTAURANT_USER:50"))
    first, second = await frame_of(client), await frame_of(client)
    assert first.command == "MESSAGE"
    assert first.headers["destination"] == DESTINATION
    assert first.headers["subscription"] == "my:sub\n1"
    assert first.headers["content-type"] == "application/json"
    assert first.body == sent.text
    assert first.headers["message-id"] != second.headers["message-id"]
    assert "ack" not in first.headers


async def test_with_client_acks_a_message_has_an_ack_header(gateway: RunningGateway) -> None:
    client = await subscribed(gateway, ack="client-individual")
    await gateway.publish(notification(7, "RESTAURANT_USER:50"))
    await client.send(encode("ACK", {"id": (await frame_of(client)).headers["ack"], "receipt": "r"}).decode())
    assert (await frame_of(client)).command == "RECEIPT"


async def test_users_receive_only_their_own_frames_while_subscribed(gateway: RunningGateway) -> None:
    client = await subscribed(gateway, "RESTAURANT_USER:50")
    colleague = await subscribed(gateway, "RESTAURANT_USER:51")
    not_yet = await connected(gateway, "RESTAURANT_USER:50")
    await gateway.publish(notification(1, "RESTAURANT_USER:51"), notification(2, "RESTAURANT_USER:50"))
    assert json.loads((await frame_of(client)).body)["id"] == 2
    assert json.loads((await frame_of(colleague)).body)["id"] == 1
    await client.send(encode("UNSUBSCRIBE", {"id": "sub-0", "receipt": "gone"}).decode())
    assert (await frame_of(client)).headers == {"receipt-id": "gone"}
    await gateway.publish(notification(3, "RESTAURANT_USER:50"))
    for silent in (client, not_yet):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent.recv(), 0.2)


async def test_disconnect_gets_a_receipt_and_a_close(gateway: RunningGateway) -> None:
    client = await connected(gateway)
    await client.send(encode("DISCONNECT", {"receipt": "77"}).decode())
    frame = await frame_of(client)
    assert (frame.command, frame.headers) == ("RECEIPT", {"receipt-id": "77"})
    assert await close_code(client) == 1000


async def test_frames_may_be_split_joined_and_binary(gateway: RunningGateway) -> None:
    client = await gateway.open(gateway.stomp_url)
    subscribe = {"id": "s", "destination": DESTINATION, "receipt": "r"}
    everything = encode("CONNECT", {"accept-version": "1.2", "authorization": f"bearer {token()}"})
    everything += b"\n" + encode("SUBSCRIBE", subscribe) + b"\n\n"
    await client.send(everything[:7].decode())
    await client.send(everything[7:30])
    await client.send(everything[30:])
    assert (await frame_of(client)).command == "CONNECTED"
    assert (await frame_of(client)).command == "RECEIPT"
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await frame_of(client)).command == "MESSAGE"


async def test_heart_beats_are_line_feeds_in_both_directions(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(stomp_heart_beat_seconds=0.3)
    client = await gateway.open(gateway.stomp_url)
    headers = {"accept-version": "1.2", "Authorization": f"Bearer {token()}", "heart-beat": "300,300"}
    await client.send(encode("CONNECT", headers).decode())
    assert (await frame_of(client)).headers["heart-beat"] == "300,300"
    for _ in range(3):
        assert await asyncio.wait_for(client.recv(), 3) == "\n"
        await client.send("\n")


async def test_heart_beats_are_sent_only_on_request(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(stomp_heart_beat_seconds=0.3)
    client = await connected(gateway)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.recv(), 1)


async def ending(client: ClientConnection) -> tuple[str, int | None]:
    return (await frame_of(client)).command, await close_code(client)


async def test_a_bad_token_is_an_error_and_4401(gateway: RunningGateway) -> None:
    for bad in (None, "Basic eDp5", "Bearer invalid", "Bearer", f"Bearer {token(seconds=-60)}"):
        client = await gateway.open(gateway.stomp_url)
        headers = {"accept-version": "1.2"} | ({"Authorization": bad} if bad else {})
        await client.send(encode("CONNECT", headers).decode())
        assert await ending(client) == ("ERROR", 4401), bad


async def test_invalid_data_before_connect_closes_and_does_not_affect_others(gateway: RunningGateway) -> None:
    neighbour = await subscribed(gateway)
    subscribe = encode("SUBSCRIBE", {"id": "1", "destination": DESTINATION})
    for invalid in (b"invalid\n\n\0", b"\x00\xff\xfe", subscribe, b"x" * 16_384 + b"x"):
        client = await gateway.open(gateway.stomp_url)
        for start in range(0, len(invalid), 16_384):
            await client.send(invalid[start : start + 16_384])
        assert await ending(client) == ("ERROR", 1002), invalid[:20]
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await frame_of(neighbour)).command == "MESSAGE"


async def test_an_unsupported_frame_is_an_error_and_closes(gateway: RunningGateway) -> None:
    for frame in (
        encode("SUBSCRIBE", {"id": "1", "destination": "/user/RESTAURANT_USER:51/queue/notifications"}),
        encode("SUBSCRIBE", {"id": "1", "destination": "/topic/everything"}),
        encode("SUBSCRIBE", {"destination": DESTINATION}),
        encode("SEND", {"destination": DESTINATION}, b"{}"),
        encode("BEGIN", {"transaction": "1"}),
    ):
        client = await connected(gateway)
        await client.send(frame.decode())
        assert await ending(client) == ("ERROR", 1002), frame


async def test_no_connect_in_time_closes_with_4408(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(auth_seconds=0.3)
    assert await close_code(await gateway.open(gateway.stomp_url)) == 4408


async def test_an_expired_token_closes_with_4401_after_the_grace_period(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(expiry_grace_seconds=0.3)
    client = await gateway.open(gateway.stomp_url)
    headers = {"accept-version": "1.2", "Authorization": f"Bearer {token(seconds=1)}"}
    await client.send(encode("CONNECT", headers).decode())
    assert (await frame_of(client)).command == "CONNECTED"
    assert (await frame_of(client)).command == "ERROR"
    assert await close_code(client) == 4401
