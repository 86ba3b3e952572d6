"""What a signature is verified with: a shared secret, or public keys.

The configuration decides the algorithm, never the token: with a secret only HS256 is accepted, with public keys only
RS256 and ES256, each with a key of the matching type. So a public key is never used as an HMAC secret, and `none` is
never accepted.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import jwt
from pydantic import SecretStr

from tablebell.tokens.identity import TokenRules

REQUIRED = ["sub", "exp", "aud", "iss", "jti", "user_type"]


class VerificationKeys(Protocol):
    @property
    def version(self) -> int:
        """Changes whenever a key is added or removed."""

    @property
    def available(self) -> bool:
        """False as long as no key is known."""

    async def refresh(self) -> None:
        """Fetch the keys if there are none yet, or they are outdated. Never raises."""

    async def decode(self, token: str, rules: TokenRules) -> dict[str, Any]:
        """Returns the claims, or raises an exception of PyJWT."""


class SharedSecret:
    version = 0
    available = True

    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret

    async def refresh(self) -> None:
        pass

    async def decode(self, token: str, rules: TokenRules) -> dict[str, Any]:
        return decode(token, self._secret.get_secret_value(), "HS256", rules)


class PublicKeys:
    """A fixed set of public keys by their `kid`."""

    version = 0
    available = True

    def __init__(self, keys: Mapping[str | None, jwt.PyJWK]) -> None:
        self._keys = keys

    async def refresh(self) -> None:
        pass

    async def decode(self, token: str, rules: TokenRules) -> dict[str, Any]:
        return decode_with(self._keys.get(key_id(token)), token, rules)


def key_id(token: str) -> str | None:
    """The `kid` that the token claims to be signed with."""
    name: str | None = jwt.get_unverified_header(token).get("kid")
    return name


def decode_with(key: jwt.PyJWK | None, token: str, rules: TokenRules) -> dict[str, Any]:
    if key is None:
        raise jwt.InvalidKeyError("it is signed with a key that is not known")
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(key.key_type))
    if algorithm is None:
        raise jwt.InvalidKeyError("it is signed with a kind of key that is not accepted")
    return decode(token, key.key, algorithm, rules)


def decode(token: str, key: Any, algorithm: str, rules: TokenRules) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        audience=rules.audience,
        issuer=rules.issuer,
        leeway=rules.clock_skew,
        options={"require": REQUIRED},
    )
    return claims
