"""Access tokens for test users."""

import secrets
import time
from typing import Any

import jwt

SECRET = secrets.token_hex(32)
AUDIENCE = "tablebell-tests"


def token(person: str = "RESTAURANT_USER:50", *, seconds: float = 600, secret: str = SECRET, **claims: Any) -> str:
    """A token for an address (`CUSTOMER:5`) that expires in `seconds`. `claims` replace the defaults."""
    user_type, _, user_id = person.partition(":")
    defaults = {"sub": user_id, "user_type": user_type, "aud": AUDIENCE, "exp": int(time.time() + seconds)}
    return jwt.encode({**defaults, **claims}, secret, algorithm="HS256")
