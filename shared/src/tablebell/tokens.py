"""Bearer tokens, verified locally.

The configuration decides the algorithm, never the token: with a secret only HS256 is accepted, with a key set only
RS256 and ES256 with a key of the matching type. So a public key is never used as an HMAC secret, and `none` is never
accepted.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol, Self

import httpx
import jwt
import structlog
from pydantic import Field, SecretStr, ValidationInfo, field_validator

from tablebell.outage import describe
from tablebell.people import UserType
from tablebell.settings import FrozenSettings

log = structlog.get_logger(__name__)

LEEWAY_SECONDS = 10
KEYS_FRESH_SECONDS = 300.0
KEYS_RETRY_SECONDS = 5.0
LONGEST_TOKEN = 8_192


class TokenSettings(FrozenSettings):
    jwt_secret: Annotated[SecretStr, Field(min_length=32)] | None = None
    jwt_jwks_url: Annotated[str | None, Field(pattern=r"^https?://", validate_default=True)] = None
    jwt_audience: Annotated[str, Field(min_length=1)]

    @field_validator("jwt_jwks_url")
    @classmethod
    def one_source_of_trust(cls, url: str | None, info: ValidationInfo) -> str | None:
        # An invalid secret has its own error message.
        if "jwt_secret" in info.data and (info.data["jwt_secret"] is None) == (url is None):
            raise ValueError("set either this or JWT_SECRET (at least 32 characters), and not both")
        return url


class BadToken(Exception):
    """The token is not valid. The message says why, without the token."""


@dataclass(frozen=True, slots=True)
class Identity:
    user_type: UserType
    user_id: int
    expires_at: datetime
    token_id: str | None = None
    """The token's `jti`, by which it can be revoked."""


class Keys(Protocol):
    async def decode(self, token: str, audience: str) -> dict[str, Any]:
        """Returns the claims, or raises an exception of PyJWT."""


class TokenVerifier:
    def __init__(self, keys: Keys, audience: str) -> None:
        self._keys = keys
        self._audience = audience

    @classmethod
    def from_settings(cls, settings: TokenSettings) -> Self:
        keys: Keys
        if settings.jwt_secret is not None:
            keys = SharedSecret(settings.jwt_secret)
        else:
            keys = KeySet(str(settings.jwt_jwks_url))
        return cls(keys, settings.jwt_audience)

    async def verify(self, token: str) -> Identity:
        if len(token) > LONGEST_TOKEN:
            raise BadToken("the token is too long")
        try:
            claims = await self._keys.decode(token, self._audience)
        except jwt.PyJWTError as error:
            raise BadToken(f"the token is not valid: {error}") from None
        return _identity(claims)


class SharedSecret:
    def __init__(self, secret: SecretStr) -> None:
        self._secret = secret

    async def decode(self, token: str, audience: str) -> dict[str, Any]:
        return _decode(token, self._secret.get_secret_value(), "HS256", audience)


class KeySet:
    """The keys of a JWKS URL: cached, and fetched again when a token names an unknown key."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = float("-inf")
        self._fetching = asyncio.Lock()

    async def decode(self, token: str, audience: str) -> dict[str, Any]:
        name = jwt.get_unverified_header(token).get("kid")
        key = await self._key(name)
        if key is None:
            raise jwt.InvalidKeyError("it is signed with a key that is not known")
        algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(key.key_type))
        if algorithm is None:
            raise jwt.InvalidKeyError("it is signed with a kind of key that is not accepted")
        return _decode(token, key.key, algorithm, audience)

    async def _key(self, name: str | None) -> jwt.PyJWK | None:
        age = time.monotonic() - self._fetched
        if age > KEYS_FRESH_SECONDS or (name not in self._keys and age > KEYS_RETRY_SECONDS):
            await self._fetch()
        return self._keys.get(name)

    async def _fetch(self) -> None:
        requested_at = time.monotonic()
        async with self._fetching:
            if self._fetched > requested_at:  # another task fetched them meanwhile
                return
            try:
                async with httpx.AsyncClient(timeout=5.0) as http:
                    answer = await http.get(self._url)
                    answer.raise_for_status()
                    keys = jwt.PyJWKSet.from_dict(answer.json()).keys
                self._keys = {key.key_id: key for key in keys if key.public_key_use in (None, "sig")}
            except (httpx.HTTPError, ValueError, jwt.PyJWTError) as error:
                # The cached keys stay valid while the issuer is unavailable.
                log.warning("keys_not_fetched", error=describe(error))
            # After a failure too, so that a flood of tokens with unknown keys does not cause a fetch for each.
            self._fetched = time.monotonic()


def _decode(token: str, key: Any, algorithm: str, audience: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        audience=audience,
        leeway=LEEWAY_SECONDS,
        options={"require": ["sub", "exp", "aud", "user_type"]},
    )
    return claims


def _identity(claims: dict[str, Any]) -> Identity:
    subject = claims["sub"]
    if not (isinstance(subject, str) and subject.isascii() and subject.isdigit() and len(subject) <= 18):
        raise BadToken("the token's sub is not a user id")
    if claims["user_type"] not in set(UserType):
        raise BadToken("the token's user_type is not known")
    try:
        expires_at = datetime.fromtimestamp(int(claims["exp"]), UTC)
    except (OverflowError, OSError, ValueError):
        raise BadToken("the token's exp is out of range") from None
    return Identity(UserType(claims["user_type"]), int(subject), expires_at, claims.get("jti"))
