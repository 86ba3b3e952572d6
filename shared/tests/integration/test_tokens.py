"""Token verification against a real key server, with known attacks on verifiers."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from pydantic import SecretStr

from tablebell.people import UserType
from tablebell.testing import eventually
from tablebell.tokens import BadKey, BadToken, KeySet, SharedSecret, SigningKey, TokenRules, TokenVerifier, key_set
from tablebell.tokens.signing_key import load_public_keys

SECRET = "a secret that is at least 32 characters long"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
RSA_PEM, EC_PEM, P384_PEM = (
    key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for key in (RSA_KEY, EC_KEY, ec.generate_private_key(ec.SECP384R1()))
)
RULES = TokenRules(audience="tablebell", issuer="tablebell", max_lifetime=86_400, clock_skew=30)


def claims(**changes: Any) -> dict[str, Any]:
    full = {
        "iss": "tablebell",
        "sub": "50",
        "user_type": "RESTAURANT_USER",
        "aud": "tablebell",
        "jti": "7",
        "exp": int(time.time()) + 600,
        **changes,
    }
    return {name: value for name, value in full.items() if value is not None}


def hs256(**changes: Any) -> str:
    return jwt.encode(claims(**changes), SECRET, algorithm="HS256")


@pytest.fixture
def verifier() -> TokenVerifier:
    return TokenVerifier(SharedSecret(SecretStr(SECRET)), RULES)


async def test_a_valid_token_identifies_the_user(verifier: TokenVerifier) -> None:
    identity = await verifier.verify(hs256())
    assert (identity.user_type, identity.user_id, identity.token_id) == (UserType.RESTAURANT_USER, 50, "7")
    assert identity.issued_at is None
    issued = time.time() - 10
    assert (await verifier.verify(hs256(iat=issued))).issued_at == issued


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": int(time.time()) - 60},
        {"exp": int(time.time()) + 90_000},
        {"exp": int(time.time()) + 600, "iat": int(time.time()) - 86_400},
        {"exp": 253_402_300_799},
        {"exp": float("inf")},
        {"exp": float("nan")},
        {"exp": "soon"},
        {"iat": int(time.time()) + 300},
        {"iat": float("-inf")},
        {"iat": "yesterday"},
        {"iss": None},
        {"iss": "another"},
        {"jti": None},
        {"jti": ""},
        {"jti": 7},
        {"exp": None},
        {"exp": 10**17},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
        {"sub": "fifty"},
        {"sub": "\u0665\u0660"},
        {"sub": "-1"},
        {"sub": "9" * 19},
        {"user_type": None},
        {"user_type": "GOD"},
        {"nbf": int(time.time()) + 86_400},
    ],
    ids=str,
)
async def test_a_token_without_valid_claims_is_refused(verifier: TokenVerifier, changes: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        await verifier.verify(hs256(**changes))


async def test_a_small_clock_difference_is_accepted(verifier: TokenVerifier) -> None:
    assert (await verifier.verify(hs256(exp=int(time.time()) - 10))).user_id == 50


@pytest.mark.parametrize("rubbish", ["", "a", "a.b.c", "x" * 100_000, "é.é.é", "..", "eyJhbGciOiJIUzI1NiJ9.e30."])
async def test_a_malformed_token_is_refused(verifier: TokenVerifier, rubbish: str) -> None:
    with pytest.raises(BadToken):
        await verifier.verify(rubbish)


async def test_another_secret_or_algorithm_is_refused(verifier: TokenVerifier) -> None:
    for token in (
        jwt.encode(claims(), SECRET + "!", algorithm="HS256"),
        jwt.encode(claims(), SECRET * 2, algorithm="HS512"),
        jwt.encode(claims(), "", algorithm="none"),
    ):
        with pytest.raises(BadToken):
            await verifier.verify(token)


class KeyServer:
    """Serves a key set that tests change, and counts its requests."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"old": RSA_KEY}
        self.asked = 0
        self.broken = False

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        body = json.dumps({"keys": [self._jwk(name, key) for name, key in self.keys.items()]}).encode()
        status = b"500 Broken" if self.broken else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()

    @staticmethod
    def _jwk(name: str, key: Any) -> dict[str, Any]:
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}


@pytest.fixture
async def key_server() -> AsyncIterator[tuple[KeyServer, str]]:
    keys = KeyServer()
    server = await asyncio.start_server(keys.answer, "127.0.0.1", 0)
    yield keys, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
    server.close()


def signed(key: Any, name: str | None, algorithm: str) -> str:
    return jwt.encode(claims(), key, algorithm=algorithm, headers={"kid": name} if name else None)


async def test_rs256_and_es256_are_verified_with_one_fetch_of_the_key_set(key_server: tuple[KeyServer, str]) -> None:
    keys, url = key_server
    keys.keys["ec"] = EC_KEY
    verifier = TokenVerifier(KeySet(url), RULES)
    wanted = [signed(RSA_KEY, "old", "RS256"), signed(EC_KEY, "ec", "ES256")] * 10
    await asyncio.gather(*(verifier.verify(token) for token in wanted))
    assert keys.asked == 1


async def test_a_new_key_is_fetched_when_a_token_names_it(
    key_server: tuple[KeyServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, url = key_server
    monkeypatch.setattr(key_set, "KEYS_RETRY_SECONDS", 0.05)
    verifier = TokenVerifier(KeySet(url), RULES)
    await verifier.verify(signed(RSA_KEY, "old", "RS256"))
    keys.keys = {"new": EC_KEY}
    await asyncio.sleep(0.06)
    assert (await verifier.verify(signed(EC_KEY, "new", "ES256"))).user_id == 50
    with pytest.raises(BadToken):
        await verifier.verify(signed(RSA_KEY, "old", "RS256"))


async def test_unknown_keys_do_not_cause_a_fetch_each(key_server: tuple[KeyServer, str]) -> None:
    keys, url = key_server
    verifier = TokenVerifier(KeySet(url), RULES)
    for n in range(20):
        with pytest.raises(BadToken):
            await verifier.verify(signed(RSA_KEY, f"unknown-{n}", "RS256"))
    assert keys.asked == 1


async def test_known_keys_stay_valid_while_the_key_server_fails(
    key_server: tuple[KeyServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, url = key_server
    monkeypatch.setattr(key_set, "KEYS_FRESH_SECONDS", 0.01)
    verifier = TokenVerifier(KeySet(url), RULES)
    await verifier.verify(signed(RSA_KEY, "old", "RS256"))
    keys.broken = True
    await asyncio.sleep(0.02)
    assert (await verifier.verify(signed(RSA_KEY, "old", "RS256"))).user_id == 50


async def test_a_public_key_is_never_used_as_a_secret(key_server: tuple[KeyServer, str]) -> None:
    _, url = key_server
    pem = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = encoded({"alg": "HS256", "kid": "old"})
    body = encoded(claims())

    signature = hmac.digest(pem, f"{header}.{body}".encode(), "sha256")
    forged = f"{header}.{body}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(BadToken):
        await TokenVerifier(KeySet(url), RULES).verify(forged)


async def test_a_repeated_token_costs_no_signature_check_until_it_expires(
    verifier: TokenVerifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, long = hs256(exp=int(time.time()) + 1), hs256()
    for token in (short, long):
        await verifier.verify(token)

    async def fail(*_: object) -> dict[str, Any]:
        raise jwt.InvalidSignatureError("decoded again")

    monkeypatch.setattr(SharedSecret, "decode", fail)
    assert (await verifier.verify(long)).user_id == (await verifier.verify(short)).user_id == 50
    later = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await verifier.verify(long)).user_id == 50
    with pytest.raises(BadToken, match="decoded again"):
        await verifier.verify(short)


async def test_a_remembered_token_is_forgotten_when_its_key_is_withdrawn(
    key_server: tuple[KeyServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, url = key_server
    monkeypatch.setattr(key_set, "KEYS_FRESH_SECONDS", 0.01)
    verifier = TokenVerifier(KeySet(url), RULES)
    old = signed(RSA_KEY, "old", "RS256")
    await verifier.verify(old)
    keys.keys = {"new": EC_KEY}

    async def is_refused() -> bool:
        try:
            await verifier.verify(old)
        except BadToken:
            return True
        return False

    await eventually(is_refused)  # the keys are fetched in the background


async def test_without_keys_the_verifier_is_not_available_and_tries_again(key_server: tuple[KeyServer, str]) -> None:
    keys, url = key_server
    keys.broken = True
    verifier = TokenVerifier(KeySet(url), RULES)
    fetching = asyncio.create_task(verifier.keep_fresh())
    with pytest.raises(BadToken):
        await verifier.check()
    keys.broken = False
    await eventually(lambda: verifier.available, within=20)
    await verifier.check()
    fetching.cancel()


async def test_the_first_key_of_a_file_signs_and_every_key_verifies(tmp_path: Path) -> None:
    first, second, foreign = (SigningKey.generate() for _ in range(3))
    file = tmp_path / "keys.pem"
    file.write_bytes(first.private_pem + second.private_pem)
    loaded = SigningKey.load(file)
    assert loaded.jwks["keys"] == [*first.jwks["keys"], *second.jwks["keys"]]
    issued = loaded.issue(UserType.CUSTOMER, 5, audience="tablebell", issuer="tablebell", seconds=900)
    assert jwt.get_unverified_header(issued) == {"alg": "ES256", "typ": "JWT", "kid": first.jwks["keys"][0]["kid"]}
    file.write_bytes(second.public_pem + first.public_pem)
    for keys in (loaded.verification_keys(), load_public_keys(file)):
        verifier = TokenVerifier(keys, RULES)
        identity = await verifier.verify(issued)
        assert (identity.user_type, identity.user_id) == (UserType.CUSTOMER, 5)
        assert (await verifier.verify(second.sign(claims()))).user_id == 50
        with pytest.raises(BadToken):
            await verifier.verify(foreign.sign(claims()))
    with pytest.raises(BadKey, match="not a private key"):
        SigningKey.load(file)


@pytest.mark.parametrize("content", [None, b"", b"no key", EC_PEM[:100] + EC_PEM[120:], RSA_PEM, P384_PEM])
def test_a_file_without_usable_keys_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "keys.pem"
    if content is not None:
        file.write_bytes(content)
    for load in (SigningKey.load, load_public_keys):
        with pytest.raises(BadKey):
            load(file)


def encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
