"""/ws: who is let in, what they are told, and how it ends for those who are not."""

import asyncio
import base64
import json
import time
from datetime import datetime
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from websockets.exceptions import InvalidStatus

from tablebell.testing.frames import notification
from tablebell.testing.tokens import AUDIENCE, token

from .harness import RunningGateway, StartGateway, close_code, receive


async def test_a_good_token_is_answered_ready(gateway: RunningGateway) -> None:
    client = await gateway.open()
    await client.send(json.dumps({"type": "auth", "token": token("CUSTOMER:5", seconds=600)}))
    ready = await receive(client)
    assert ready.keys() == {"type", "userType", "userId", "expiresAt"}
    assert (ready["type"], ready["userType"], ready["userId"]) == ("ready", "CUSTOMER", 5)
    assert 590 < datetime.fromisoformat(ready["expiresAt"]).timestamp() - time.time() <= 600


async def test_everyone_gets_what_is_theirs_on_all_of_their_tabs_and_nothing_else(gateway: RunningGateway) -> None:
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


async def test_a_frame_arrives_as_the_text_that_was_published(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    frame = notification(7, "RESTAURANT_USER:50", body='Zoë "€" \\ 🍕\n')
    await gateway.publish(frame)
    assert await asyncio.wait_for(client.recv(), 5) == frame.text.decode()


async def test_nothing_is_delivered_before_the_token_is_good(gateway: RunningGateway) -> None:
    silent = await gateway.open()
    signed_in = await gateway.sign_in()
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(signed_in))["id"] == 1
    with pytest.raises(TimeoutError):
        await receive(silent, within=0.2)


async def test_ping_is_answered_and_unknown_types_are_left_alone(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    await client.send('{"type":"from-the-future"}')
    await client.send('{"type":"ping"}')
    assert await receive(client) == {"type": "pong"}


def _signed_by(header: dict[str, str], claims: dict[str, object], signature: str = "") -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join([*parts, signature])


def _bad_tokens() -> dict[str, str]:
    claims: dict[str, object] = {
        "sub": "50",
        "user_type": "RESTAURANT_USER",
        "aud": AUDIENCE,
        "exp": int(time.time()) + 600,
    }
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "rubbish": "rubbish",
        "empty": "",
        "not ascii": "ü.ü.ü",
        "too long": "x" * 9_000,
        "nested too deeply": base64.urlsafe_b64encode(b"[" * 5_000).decode().rstrip("=") + ".e30.x",
        "expired": token(seconds=-60),
        "another secret": token(secret="x" * 40),
        "another audience": token(aud="elsewhere"),
        "no such user type": token("KING:1"),
        "a user id that is none": token("CUSTOMER:one"),
        "expires beyond all calendars": token(exp=10**17),
        "alg none": _signed_by({"alg": "none", "typ": "JWT"}, claims),
        "alg NONE with a signature": _signed_by({"alg": "NONE", "typ": "JWT"}, claims, "AAAA"),
        "alg RS256": jwt.encode(claims, pem, algorithm="RS256"),
        "alg HS512 with our secret": jwt.encode(claims, "y" * 64, algorithm="HS512"),
    }


BAD_TOKENS = _bad_tokens()


async def test_a_bad_token_closes_with_4401_and_disturbs_nobody(gateway: RunningGateway) -> None:
    neighbour = await gateway.sign_in()
    codes = {}
    for name, bad in BAD_TOKENS.items():
        client = await gateway.open()
        await client.send(json.dumps({"type": "auth", "token": bad}))
        codes[name] = await close_code(client)
    assert codes == dict.fromkeys(BAD_TOKENS, 4401)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(neighbour))["id"] == 1


RUBBISH: dict[str | bytes, int] = {
    '{"type":"auth"}': 4401,
    '{"type":"auth","token":7}': 4401,
    '{"type":"ping"}': 4401,
    "no json": 1007,
    '["auth"]': 1007,
    '{"type":["auth"]}': 1007,
    "{" * 10_000: 1007,
    b"\x00\xff binary rubbish": 1003,
    "x" * 20_000: 1009,
}


async def test_rubbish_has_its_close_code_and_disturbs_nobody(gateway: RunningGateway) -> None:
    neighbour = await gateway.sign_in()
    codes = {}
    for sent in RUBBISH:
        client = await gateway.open()
        await client.send(sent)
        codes[sent] = await close_code(client)
    assert codes == RUBBISH
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(neighbour))["id"] == 1


async def test_rubbish_after_signing_in_closes_too(gateway: RunningGateway) -> None:
    for sent, code in (("x" * 20_000, 1009), (b"binary", 1003), ("no json", 1007)):
        client = await gateway.sign_in()
        await client.send(sent)
        assert await close_code(client) == code


async def test_a_message_in_fragments_is_one_message(gateway: RunningGateway) -> None:
    client = await gateway.open()
    text = json.dumps({"type": "auth", "token": token()})
    await client.send([text[:10], text[10:50], text[50:]])
    assert (await receive(client))["type"] == "ready"


async def test_a_hundred_thousand_small_frames_close_with_1008_and_disturb_nobody(gateway: RunningGateway) -> None:
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


async def test_no_auth_in_time_closes_with_4408(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(auth_seconds=0.3)
    assert await close_code(await gateway.open()) == 4408


async def test_the_time_to_authenticate_is_five_seconds_unless_said_otherwise(gateway: RunningGateway) -> None:
    assert gateway.settings.auth_seconds == 5.0


async def test_half_a_handshake_is_not_waited_for(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(auth_seconds=0.3)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.port)
    writer.write(b"GET /ws HTTP/1.1\r\nHost:")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_an_expired_token_closes_with_4401_after_the_grace(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(expiry_grace_seconds=0.5)
    client = await gateway.sign_in(seconds=1)
    started = time.monotonic()
    assert await close_code(client) == 4401
    assert time.monotonic() - started > 0.4


async def test_a_renewed_token_keeps_the_connection(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(expiry_grace_seconds=0.2)
    client = await gateway.sign_in(seconds=1)
    await client.send(json.dumps({"type": "auth", "token": token(seconds=600)}))
    assert (await receive(client))["type"] == "ready"
    await asyncio.sleep(2)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(client))["id"] == 1


async def test_a_renewal_within_the_grace_is_in_time(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(expiry_grace_seconds=30)
    client = await gateway.sign_in(seconds=0)
    await asyncio.sleep(0.6)
    await client.send(json.dumps({"type": "auth", "token": token(seconds=600)}))
    assert (await receive(client))["type"] == "ready"


async def test_a_renewal_with_another_persons_token_closes_with_4401(gateway: RunningGateway) -> None:
    client = await gateway.sign_in("RESTAURANT_USER:50")
    await client.send(json.dumps({"type": "auth", "token": token("RESTAURANT_USER:51")}))
    assert await close_code(client) == 4401


async def test_a_bad_renewal_closes_with_4401(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    await client.send(json.dumps({"type": "auth", "token": token(seconds=-60)}))
    assert await close_code(client) == 4401


@pytest.mark.parametrize("line", ["the-token-of-a-stolen-phone", "RESTAURANT_USER:50"])
async def test_a_revoked_token_is_refused_and_its_open_connections_close_with_4401(
    start_gateway: StartGateway, revoked_file: Path, line: str
) -> None:
    gateway = await start_gateway(revoked_tokens_file=revoked_file)
    client = await gateway.sign_in(jti="the-token-of-a-stolen-phone")
    neighbour = await gateway.sign_in("RESTAURANT_USER:51", jti="another")
    await asyncio.to_thread(revoked_file.write_text, f"# stolen on Monday\n{line}\n")
    assert await close_code(client) == 4401
    again = await gateway.open()
    await again.send(json.dumps({"type": "auth", "token": token(jti="the-token-of-a-stolen-phone")}))
    assert await close_code(again) == 4401
    await gateway.publish(notification(1, "RESTAURANT_USER:51"))
    assert (await receive(neighbour))["id"] == 1


async def test_a_foreign_origin_is_refused_before_the_handshake(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(ws_allowed_origins="https://staff.example, https://other.example/")
    for origin in ("https://evil.example", "null", "https://staff.example.evil.example", "http://staff.example"):
        with pytest.raises(InvalidStatus) as refused:
            await gateway.open(origin=origin)
        assert refused.value.response.status_code == 403


async def test_known_origins_our_own_pages_and_programs_are_let_in(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(ws_allowed_origins="https://staff.example, https://other.example/")
    for origin in ("https://staff.example", "https://other.example", gateway.http_url, None):
        await gateway.open(origin=origin)


async def test_too_many_connections_of_one_person_close_with_4429(start_gateway: StartGateway) -> None:
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
    assert await close_code(third) == 4429


async def test_a_user_with_tabs_on_two_gateways_sees_everything_on_both(start_gateway: StartGateway) -> None:
    first, second = await start_gateway(), await start_gateway()
    tabs = [await first.sign_in(), await second.sign_in()]
    await first.publish(*(notification(number, "RESTAURANT_USER:50") for number in range(50)))
    for tab in tabs:
        assert [(await receive(tab))["id"] for _ in range(50)] == list(range(50))


async def test_what_happens_is_counted(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    before = await counted(gateway)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"), notification(2, "RESTAURANT_USER:99"))
    assert (await receive(client))["id"] == 1
    after = await counted(gateway)
    assert after['gateway_connections{protocol="json"}'] == 1
    assert after["gateway_users"] == 1
    assert after["gateway_feed_live"] == 1
    assert after["gateway_frames_total"] - before["gateway_frames_total"] == 2
    assert after["gateway_frames_sent_total"] - before["gateway_frames_sent_total"] == 1
    assert after["gateway_lag_seconds_count"] - before["gateway_lag_seconds_count"] == 1
    assert 0 <= after["gateway_lag_seconds_sum"] - before["gateway_lag_seconds_sum"] < 5


async def counted(gateway: RunningGateway) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in (await gateway.metrics()).splitlines() if line.startswith("gateway_")]
    return {name: float(value) for name, _, value in lines}
