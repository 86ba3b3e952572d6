"""Google's access tokens for a service account: signed for, fetched, and kept until shortly before they expire."""

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
# A token that expires on its way is a refused message.
MARGIN_SECONDS = 60.0


class InvalidServiceAccount(ValueError):
    """The file is not a service account's."""


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
        self._good_until = 0.0
        self._fetching = asyncio.Lock()

    async def get(self) -> str | ProviderDown:
        """A token, or why there is none. However many ask at once, one request is made."""
        async with self._fetching:
            if self._token is not None and time.monotonic() < self._good_until:
                return self._token
            return await self._fetch()

    def forget(self, token: str) -> None:
        """It was refused: the next one to ask gets another."""
        if token == self._token:
            self._token = None

    async def _fetch(self) -> str | ProviderDown:
        asked = time.monotonic()
        form = {"grant_type": GRANT, "assertion": self._account.assertion(int(time.time()))}
        answer = await self._provider.post(self._account.token_uri, data=form)
        if isinstance(answer, ProviderDown):
            return replace(answer, reason=f"no access token: {answer.reason}", certain=True)
        body = read_object(answer)
        token = body.get("access_token")
        if not answer.is_success or not isinstance(token, str):
            # 4xx: they know us and say no. Otherwise their token endpoint is down. Neither is about a message.
            said = body.get("error_description") or body.get("error") or ""
            reason = f"no access token: HTTP {answer.status_code} {said}"
            needs_operator = answer.is_client_error and answer.status_code not in (408, 429)
            return ProviderDown(reason, needs_operator=needs_operator, certain=True)
        lifetime = float(body.get("expires_in", ASSERTION_SECONDS))
        self._token, self._good_until = token, asked + max(lifetime - MARGIN_SECONDS, lifetime / 2)
        return token
