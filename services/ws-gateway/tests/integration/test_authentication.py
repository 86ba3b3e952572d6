"""/ws: tokens, their renewal, expiry and revocation."""

import asyncio
import base64
import hmac
import json
import time
from datetime import datetime
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tablebell.testing.frames import notification
from tablebell.testing.tokens import KEY, claims, token
from tablebell.tokens import SigningKey

from .harness import RunningGateway, StartGateway, close_code, receive


async def test_a_valid_token_is_answered_with_ready(gateway: RunningGateway) -> None:
    client = await gateway.open()
    await client.send(json.dumps({"type": "auth", "token": token("CUSTOMER:5", seconds=600)}))
    ready = await receive(client)
    assert ready.keys() == {"type", "userType", "userId", "expiresAt"}
    assert (ready["type"], ready["userType"], ready["userId"]) == ("ready", "CUSTOMER", 5)
    assert 590 < datetime.fromisoformat(ready["expiresAt"]).timestamp() - time.time() <= 600


def _signed_by(header: dict[str, str], claims: dict[str, object], signature: str = "") -> str:
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return ".".join([*parts, signature])


def _hmac_signed(valid: dict[str, object], key: bytes, name: dict[str, str]) -> str:
    """Signed by hand, because libraries refuse a public key as the secret."""
    signed = _signed_by({"alg": "HS256", "typ": "JWT", **name}, valid)[:-1]
    signature = base64.urlsafe_b64encode(hmac.digest(key, signed.encode(), "sha256")).rstrip(b"=").decode()
    return f"{signed}.{signature}"


def _bad_tokens() -> dict[str, str]:
    valid = claims()
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = {"kid": KEY.jwks["keys"][0]["kid"]}
    return {
        "not a token": "invalid",
        "empty": "",
        "not ascii": "ü.ü.ü",
        "too long": "x" * 9_000,
        "nested too deeply": base64.urlsafe_b64encode(b"[" * 5_000).decode().rstrip("=") + ".e30.x",
        "expired": token(seconds=-60),
        "another key": token(key=SigningKey.generate()),
        "another audience": token(aud="elsewhere"),
        "another issuer": token(iss="elsewhere"),
        "no jti": token(jti=None),
        "longer than a day": token(seconds=100_000),
        "unknown user type": token("KING:1"),
        "user id is not a number": token("CUSTOMER:one"),
        "exp is out of range": token(exp=10**17),
        "alg none": _signed_by({"alg": "none", "typ": "JWT", **name}, valid),
        "alg NONE with a signature": _signed_by({"alg": "NONE", "typ": "JWT", **name}, valid, "AAAA"),
        "alg RS256": jwt.encode(valid, rsa_key, algorithm="RS256", headers=name),
        "alg HS256": jwt.encode(valid, "y" * 64, algorithm="HS256", headers=name),
        "alg HS256 with the public key": _hmac_signed(valid, KEY.public_pem, name),
    }


BAD_TOKENS = _bad_tokens()


async def test_a_bad_token_closes_with_4401_and_does_not_affect_others(gateway: RunningGateway) -> None:
    neighbour = await gateway.sign_in()
    codes = {}
    for name, bad in BAD_TOKENS.items():
        client = await gateway.open()
        await client.send(json.dumps({"type": "auth", "token": bad}))
        codes[name] = await close_code(client)
    assert codes == dict.fromkeys(BAD_TOKENS, 4401)
    await gateway.publish(notification(1, "RESTAURANT_USER:50"))
    assert (await receive(neighbour))["id"] == 1


async def test_no_auth_in_time_closes_with_4408(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(auth_seconds=0.3)
    assert await close_code(await gateway.open()) == 4408


async def test_an_expired_token_closes_with_4401_after_the_grace_period(start_gateway: StartGateway) -> None:
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


async def test_a_token_can_be_renewed_within_the_grace_period(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(expiry_grace_seconds=30)
    client = await gateway.sign_in(seconds=0)
    await asyncio.sleep(0.6)
    await client.send(json.dumps({"type": "auth", "token": token(seconds=600)}))
    assert (await receive(client))["type"] == "ready"


async def test_a_renewal_with_another_users_token_closes_with_4401(gateway: RunningGateway) -> None:
    client = await gateway.sign_in("RESTAURANT_USER:50")
    await client.send(json.dumps({"type": "auth", "token": token("RESTAURANT_USER:51")}))
    assert await close_code(client) == 4401


async def test_a_bad_renewal_closes_with_4401(gateway: RunningGateway) -> None:
    client = await gateway.sign_in()
    await client.send(json.dumps({"type": "auth", "token": token(seconds=-60)}))
    assert await close_code(client) == 4401


@pytest.mark.parametrize("line", ["the-token-of-a-stolen-phone", "RESTAURANT_USER:50"])
async def test_a_revoked_token_is_rejected_and_its_open_connections_close_with_4401(
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
