"""Authentication: ES256 with the service's own key, RS256 and ES256 with a key set, HS256 with a secret."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
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

from tablebell.lifecycle import Stop
from tablebell.testing import Database, free_port
from tablebell.testing import tokens as testing_tokens
from tablebell.tokens import SigningKey, key_set
from tablebell.web import serve

from .conftest import answering, running, settings_for, token

PATH = "/notifications/unread-count"
SECRET = "a-secret-that-is-long-enough-for-hs256"


def claims(**changed: Any) -> dict[str, Any]:
    return testing_tokens.claims("CUSTOMER:5", **changed)


async def status(api: str, bearer: str) -> int:
    async with httpx.AsyncClient(base_url=api) as http:
        return (await http.get(PATH, headers={"Authorization": f"Bearer {bearer}"})).status_code


async def test_only_unexpired_tokens_with_all_claims_are_accepted(api: str) -> None:
    def signed(**changed: Any) -> str:
        return testing_tokens.KEY.sign(claims(**changed))

    now = int(time.time())
    good = {
        "plain": signed(),
        "expired, within the clock skew": signed(seconds=-5),
        "without iat": signed(iat=None),
        "for a day": signed(seconds=86_400),
    }
    bad = {
        "expired": signed(seconds=-60),
        "not yet": signed(nbf=now + 300),
        "issued in the future": signed(iat=now + 300),
        "another audience": signed(aud="somebody-else"),
        "another issuer": signed(iss="somebody-else"),
        "another key": SigningKey.generate().sign(claims()),
        "no expiry": signed(exp=None),
        "no audience": signed(aud=None),
        "no issuer": signed(iss=None),
        "no jti": signed(jti=None),
        "an empty jti": signed(jti=""),
        "a long jti": signed(jti="x" * 201),
        "no user type": signed(user_type=None),
        "no subject": signed(sub=None),
        "an unknown user type": signed(user_type="ROOT"),
        "a subject that is no id": signed(sub="5 OR 1=1"),
        "a huge subject": signed(sub="9" * 30),
        "longer than a day": signed(seconds=86_500),
        "longer than a day, without iat": signed(seconds=86_500, iat=None),
        "until the year 9999": signed(exp=253_402_300_799, iat=None),
        "until the year 9999, issued late": signed(exp=253_402_300_799),
        "after the year 9999": signed(exp=10**17),
        "infinitely long": signed(exp=float("inf")),
        "not a number": signed(exp=float("nan")),
        "a negative iat": signed(iat=-(10**17)),
        "not a token": "x.y.z",
        "very long": "x" * 9000,
    }
    assert {name: await status(api, bearer) for name, bearer in good.items()} == dict.fromkeys(good, 200)
    assert {name: await status(api, bearer) for name, bearer in bad.items()} == dict.fromkeys(bad, 401)


async def test_the_problem_of_a_refused_token_names_the_reason(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as http:
        for changed, reason in (
            ({"exp": 253_402_300_799}, "lifetime is longer than 86400 s"),
            ({"exp": 10**17}, "exp is out of range"),
            ({"iss": "somebody-else"}, "issuer"),
            ({"jti": None}, "jti"),
        ):
            bearer = testing_tokens.KEY.sign(claims(**changed))
            answer = await http.get(PATH, headers={"Authorization": f"Bearer {bearer}"})
            assert answer.headers["content-type"] == "application/problem+json"
            assert reason in answer.json()["detail"]


async def test_the_own_key_accepts_only_es256(api: str) -> None:
    (published,) = testing_tokens.KEY.jwks["keys"]
    name = {"kid": published["kid"]}
    rsa_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    forged = {
        "unsigned": jwt.encode(claims(), "", algorithm="none", headers=name),
        "HS256 with the public key": hmac_signed(testing_tokens.KEY.public_pem, name["kid"]),
        "HS256 with the published x": hmac_signed(published["x"].encode(), name["kid"]),
        "HS256 with some secret": jwt.encode(claims(), SECRET, algorithm="HS256", headers=name),
        "RS256 with the name of the key": jwt.encode(claims(), rsa_key, algorithm="RS256", headers=name),
        "without the name of the key": jwt.encode(claims(), SECRET, algorithm="HS256"),
        "with its own key in the header": jwt.encode(
            claims(), rsa_key, algorithm="RS256", headers={"jwk": {"kty": "RSA"}, **name}
        ),
    }
    assert {name: await status(api, bearer) for name, bearer in forged.items()} == dict.fromkeys(forged, 401)


async def test_a_secret_is_possible_by_explicit_setting_and_then_accepts_only_hs256(database: Database) -> None:
    async with running(settings_for(database, jwt_private_key_file=None, jwt_secret=SECRET)) as api:
        assert await status(api, jwt.encode(claims(), SECRET, algorithm="HS256")) == 200
        assert await status(api, jwt.encode(claims(), SECRET * 2, algorithm="HS512")) == 401
        assert await status(api, jwt.encode(claims(), "", algorithm="none")) == 401
        assert await status(api, testing_tokens.token("CUSTOMER:5")) == 401
        async with httpx.AsyncClient(base_url=api) as http:
            assert (await http.get("/.well-known/jwks.json")).json() == {"keys": []}


async def test_the_public_keys_are_published_and_an_old_key_stays_valid(database: Database, tmp_path: Path) -> None:
    new, old = SigningKey.generate(), testing_tokens.KEY
    file = tmp_path / "keys.pem"
    file.write_bytes(new.private_pem + old.public_pem)
    async with running(settings_for(database, jwt_private_key_file=file)) as api:
        async with httpx.AsyncClient(base_url=api) as http:
            answer = await http.get("/.well-known/jwks.json")
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert answer.json()["keys"] == [*new.jwks["keys"], *old.jwks["keys"]]
        assert all("d" not in key for key in answer.json()["keys"])
        assert await status(api, new.sign(claims())) == 200
        assert await status(api, old.sign(claims())) == 200


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
    monkeypatch.setattr(key_set, "KEYS_RETRY_SECONDS", 0.0)
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
    async with running(settings_for(database, jwt_private_key_file=None, jwt_jwks_url=url)) as api:
        assert await status(api, known.sign("rsa-1", "RS256")) == 200
        assert await status(api, known.sign("ec-1", "ES256")) == 200
        assert await status(api, known.sign("rsa-1", "RS512")) == 401
        assert await status(api, known.sign("rsa-1", "PS256")) == 401
        assert await status(api, hmac_signed(public, "rsa-1")) == 401, "a public key is not a secret"
        assert await status(api, jwt.encode(claims(), "", algorithm="none", headers={"kid": "rsa-1"})) == 401
        assert await status(api, jwt.encode(claims(), SECRET, algorithm="HS256", headers={"kid": "rsa-1"})) == 401
        assert await status(api, token("CUSTOMER", 5)) == 401, "the key is not in the set"


async def test_keys_are_rotated_without_a_restart_and_kept_while_the_issuer_is_down(
    database: Database, issuer: tuple[Issuer, str]
) -> None:
    known, url = issuer
    async with running(settings_for(database, jwt_private_key_file=None, jwt_jwks_url=url)) as api:
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

    header = {"alg": "HS256", "typ": "JWT", "kid": name}
    signed = f"{part(json.dumps(header).encode())}.{part(json.dumps(claims()).encode())}"
    return f"{signed}.{part(hmac.digest(key, signed.encode(), hashlib.sha256))}"
