"""Authentication: HS256 with a secret, RS256 and ES256 with a key set."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tablebell import tokens
from tablebell.lifecycle import Stop
from tablebell.testing import Database, free_port
from tablebell.web import serve

from .conftest import AUDIENCE, SECRET, answering, running, settings_for, token

PATH = "/notifications/unread-count"


def now(**later: float) -> datetime:
    return datetime.now(UTC) + timedelta(**later)


def claims(**changed: Any) -> dict[str, Any]:
    return {"sub": "5", "user_type": "CUSTOMER", "aud": AUDIENCE, "exp": now(hours=1)} | changed


async def status(api: str, bearer: str) -> int:
    async with httpx.AsyncClient(base_url=api) as http:
        return (await http.get(PATH, headers={"Authorization": f"Bearer {bearer}"})).status_code


async def test_a_secret_accepts_only_unexpired_hs256_tokens(api: str) -> None:
    def signed(algorithm: str = "HS256", key: str = SECRET, **changed: Any) -> str:
        return jwt.encode(claims(**changed), key, algorithm=algorithm)

    def without(claim: str) -> str:
        return jwt.encode({name: value for name, value in claims().items() if name != claim}, SECRET, "HS256")

    good = {"plain": signed(), "expired, within the leeway": signed(exp=now(seconds=-5))}
    bad = {
        "expired": signed(exp=now(seconds=-15)),
        "not yet": signed(nbf=now(minutes=5)),
        "another audience": signed(aud="somebody-else"),
        "another key": signed(key="another-secret-that-is-long-enough-too"),
        "another algorithm": signed("HS512", SECRET * 2),
        "unsigned": jwt.encode(claims(), "", algorithm="none"),
        "no expiry": without("exp"),
        "no audience": without("aud"),
        "no user type": without("user_type"),
        "no subject": without("sub"),
        "an unknown user type": signed(user_type="ROOT"),
        "a subject that is no id": signed(sub="5 OR 1=1"),
        "a huge subject": signed(sub="9" * 30),
        "not a token": "x.y.z",
        "very long": "x" * 9000,
    }
    assert {name: await status(api, bearer) for name, bearer in good.items()} == dict.fromkeys(good, 200)
    assert {name: await status(api, bearer) for name, bearer in bad.items()} == dict.fromkeys(bad, 401)


async def test_another_authorization_scheme_is_401(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as http:
        for header in ("Basic NTo1", token("CUSTOMER", 5), "Bearer", ""):
            assert (await http.get(PATH, headers={"Authorization": header})).status_code == 401, header


class Issuer:
    """A token issuer: named keys, with the public keys at a URL."""

    def __init__(self) -> None:
        self.keys: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey] = {}
        self.is_down = False

    async def publish(self, _: Request) -> Response:
        if self.is_down:
            return Response(status_code=503)
        return JSONResponse({"keys": [self._public(name) for name in self.keys]})

    def _public(self, name: str) -> dict[str, Any]:
        key = self.keys[name].public_key()
        kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPublicKey) else jwt.algorithms.ECAlgorithm
        published: dict[str, Any] = json.loads(kind.to_jwk(key))  # type: ignore[arg-type]
        return {**published, "kid": name, "use": "sig"}

    def sign(self, name: str, algorithm: str) -> str:
        return jwt.encode(claims(), self.keys[name], algorithm=algorithm, headers={"kid": name})


@pytest.fixture
async def issuer(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Issuer, str]]:
    monkeypatch.setattr(tokens, "KEYS_RETRY_SECONDS", 0.0)
    issuer, stop, port = Issuer(), Stop(), free_port()
    issuer.keys = {
        "rsa-1": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ec-1": ec.generate_private_key(ec.SECP256R1()),
    }
    healthy = Route("/health/ready", lambda _: Response())
    site = Starlette(routes=[Route("/jwks", issuer.publish), healthy])
    serving = asyncio.create_task(serve(site, "127.0.0.1", port, stop))
    yield issuer, await answering(f"http://127.0.0.1:{port}") + "/jwks"
    stop.request()
    await serving


async def test_a_key_set_accepts_rs256_and_es256_and_ignores_other_algorithms_in_the_token(
    database: Database, issuer: tuple[Issuer, str]
) -> None:
    known, url = issuer
    public = known.keys["rsa-1"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    async with running(settings_for(database, jwt_secret=None, jwt_jwks_url=url)) as api:
        assert await status(api, known.sign("rsa-1", "RS256")) == 200
        assert await status(api, known.sign("ec-1", "ES256")) == 200
        assert await status(api, known.sign("rsa-1", "RS512")) == 401
        assert await status(api, known.sign("rsa-1", "PS256")) == 401
        assert await status(api, hmac_signed(public, "rsa-1")) == 401, "a public key is not a secret"
        assert await status(api, jwt.encode(claims(), "", algorithm="none", headers={"kid": "rsa-1"})) == 401
        assert await status(api, token("CUSTOMER", 5)) == 401, "HS256 is not accepted with a key set"


async def test_keys_are_rotated_without_a_restart_and_kept_while_the_issuer_is_down(
    database: Database, issuer: tuple[Issuer, str]
) -> None:
    known, url = issuer
    async with running(settings_for(database, jwt_secret=None, jwt_jwks_url=url)) as api:
        old = known.sign("ec-1", "ES256")
        assert await status(api, old) == 200
        known.keys = {"ec-2": ec.generate_private_key(ec.SECP256R1())}
        assert await status(api, known.sign("ec-2", "ES256")) == 200
        assert await status(api, old) == 401, "the key was withdrawn"
        known.is_down = True
        assert await status(api, known.sign("ec-2", "ES256")) == 200
        known.keys["ec-3"] = ec.generate_private_key(ec.SECP256R1())
        assert await status(api, known.sign("ec-3", "ES256")) == 401


def hmac_signed(key: bytes, name: str) -> str:
    """Signed by hand, because libraries refuse a public key as the secret."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    body = {**claims(), "exp": int(now(hours=1).timestamp())}
    header = {"alg": "HS256", "typ": "JWT", "kid": name}
    signed = f"{part(json.dumps(header).encode())}.{part(json.dumps(body).encode())}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"
