"""Google access tokens for a service account, cached until shortly before they expire."""

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import jwt
import orjson

from channel_dispatcher.channels.http import HttpProvider, read_object
from channel_dispatcher.outcome import ProviderDown

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_SECONDS = 3600
# A token must not expire on its way to the provider.
MARGIN_SECONDS = 60.0


class InvalidServiceAccount(ValueError):
    """The file is not a service account's key file."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    client_email: str
    private_key: str
    private_key_id: str
    token_uri: str

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            fields = orjson.loads(path.read_bytes())
            account = cls(**{name: str(fields[name]) for name in cls.__slots__})
            account.assertion(0)
        except (OSError, ValueError, KeyError, TypeError, jwt.PyJWTError) as error:
            raise InvalidServiceAccount(f"not a service account's file ({type(error).__name__})") from error
        return account

    def assertion(self, now: int) -> str:
        claims = {"iss": self.client_email, "scope": SCOPE, "aud": self.token_uri, "iat": now}
        headers = {"kid": self.private_key_id}
        return jwt.encode(claims | {"exp": now + ASSERTION_SECONDS}, self.private_key, "RS256", headers)


class AccessTokens:
    def __init__(self, account: ServiceAccount, provider: HttpProvider) -> None:
        self._account = account
        self._provider = provider
        self._token: str | None = None
        self._valid_until = 0.0
        self._lock = asyncio.Lock()

    async def get(self) -> str | ProviderDown:
        """Returns a token, or the reason for its absence. Concurrent callers share one request."""
        async with self._lock:
            if self._token is not None and time.monotonic() < self._valid_until:
                return self._token
            return await self._fetch()

    def forget(self, token: str) -> None:
        """Discards a rejected token, so that the next `get` fetches another."""
        if token == self._token:
            self._token = None

    async def _fetch(self) -> str | ProviderDown:
        requested_at = time.monotonic()
        form = {"grant_type": GRANT, "assertion": self._account.assertion(int(time.time()))}
        response = await self._provider.post(self._account.token_uri, data=form)
        if isinstance(response, ProviderDown):
            return replace(response, reason=f"no access token: {response.reason}", certain=True)
        body = read_object(response)
        token = body.get("access_token")
        if not response.is_success or not isinstance(token, str):
            # 4xx: our credentials are rejected. Otherwise the token endpoint is down. No message is the cause.
            detail = body.get("error_description") or body.get("error") or ""
            reason = f"no access token: HTTP {response.status_code} {detail}"
            needs_operator = response.is_client_error and response.status_code not in (408, 429)
            return ProviderDown(reason, needs_operator=needs_operator, certain=True)
        lifetime = float(body.get("expires_in", ASSERTION_SECONDS))
        self._token, self._valid_until = token, requested_at + max(lifetime - MARGIN_SECONDS, lifetime / 2)
        return token
