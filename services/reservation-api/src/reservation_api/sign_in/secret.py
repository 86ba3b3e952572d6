"""Random codes and refresh tokens. The database has only their hashes. Pure.

A refresh token names its session, so that a token that was replaced long ago still shows which session it belongs to.
The session's id is random: whoever sends it with a wrong secret holds, or held, a token of that session.

The next token follows from the given one and a salt in the database. So the same request, repeated because its answer
was lost or sent by two tabs at once, gets the same token again, and a session has one valid token at any time.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Self
from uuid import UUID, uuid4

SECRET_BYTES = 32


def new_code() -> str:
    return secrets.token_urlsafe(SECRET_BYTES)


def new_salt() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True, slots=True)
class RefreshToken:
    session_id: UUID
    secret: str = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        return cls(uuid4(), new_code())

    @classmethod
    def parse(cls, text: str) -> Self | None:
        name, _, secret = text.partition(".")
        try:
            return cls(UUID(name), secret)
        except ValueError:
            return None

    def next(self, salt: bytes) -> Self:
        return type(self)(self.session_id, hmac.new(salt, self.secret.encode(), hashlib.sha256).hexdigest())

    @property
    def digest(self) -> bytes:
        return digest(self.secret)

    def __str__(self) -> str:
        return f"{self.session_id}.{self.secret}"
