"""Verifies bearer tokens, and remembers those that are valid: a repeated token costs no signature check.

What it remembers is only that the signature and the claims are valid. Whether the person exists and the token has not
been revoked is for the caller to check, every time.
"""

import asyncio
import time
from typing import Self

import jwt

from tablebell.tokens.identity import BadToken, Identity, TokenRules
from tablebell.tokens.key_set import KeySet
from tablebell.tokens.keys import SharedSecret, VerificationKeys
from tablebell.tokens.settings import IssuerSettings, TokenSettings
from tablebell.tokens.signing_key import load_public_keys

LONGEST_TOKEN = 8_192
MAX_REMEMBERED = 20_000
FRESH_CHECK_SECONDS = 30.0
RETRY_SECONDS = 0.6


class TokenVerifier:
    def __init__(self, keys: VerificationKeys, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules
        self._remembered: dict[str, tuple[float, Identity]] = {}
        self._remembered_version = keys.version

    @classmethod
    def from_settings(cls, settings: TokenSettings) -> Self:
        return cls(_keys(settings), settings.token_rules)

    async def check(self) -> None:
        """Raise while no key is known."""
        await self._keys.refresh()
        if not self._keys.available:
            raise BadToken("the keys for tokens have not been read yet")

    @property
    def available(self) -> bool:
        """False as long as no key is known."""
        return self._keys.available

    async def keep_fresh(self) -> None:
        """Fetch the keys at the start, until it succeeds, and keep them up to date."""
        while True:
            await self._keys.refresh()
            await asyncio.sleep(FRESH_CHECK_SECONDS if self.available else RETRY_SECONDS)

    async def verify(self, token: str) -> Identity:
        await self._keys.refresh()
        if self._keys.version != self._remembered_version:
            # A key may have been withdrawn.
            self._remembered.clear()
            self._remembered_version = self._keys.version
        remembered = self._remembered.get(token)
        now = time.time()
        if remembered is not None and now < remembered[0]:
            return remembered[1]
        identity = await self._verify(token, now)
        self._remember(token, identity)
        return identity

    async def _verify(self, token: str, now: float) -> Identity:
        if len(token) > LONGEST_TOKEN:
            raise BadToken("the token is too long")
        try:
            claims = await self._keys.decode(token, self._rules)
        except jwt.PyJWTError as error:
            raise BadToken(f"the token is not valid: {error}") from None
        except (OverflowError, ValueError):
            # PyJWT converts the times without checking their range.
            raise BadToken("the token is not valid: a time is out of range") from None
        return self._rules.identify(claims, now)

    def _remember(self, token: str, identity: Identity) -> None:
        if len(self._remembered) >= MAX_REMEMBERED:
            self._remembered.clear()
        # PyJWT accepts a token until its exp plus the skew.
        self._remembered[token] = identity.expires_at.timestamp() + self._rules.clock_skew, identity


def _keys(settings: TokenSettings) -> VerificationKeys:
    if settings.jwt_secret is not None:
        return SharedSecret(settings.jwt_secret)
    if settings.jwt_public_key_file is not None:
        return load_public_keys(settings.jwt_public_key_file)
    if isinstance(settings, IssuerSettings) and (key := settings.signing_key()) is not None:
        return key.verification_keys()
    return KeySet(str(settings.jwt_jwks_url))
