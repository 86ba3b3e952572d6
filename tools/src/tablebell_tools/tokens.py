"""Tokens for the people of the demo data."""

import re
from datetime import UTC, datetime, timedelta

import jwt

from tablebell_local.errors import CommandError

AUDIENCE = "tablebell"
LIFETIME = timedelta(hours=12)
USER_TYPES = ("CUSTOMER", "RESTAURANT_USER", "ADMIN_USER", "AGENCY_USER")


def issue(person: str, secret: str, now: datetime | None = None) -> str:
    """`person` has the form restaurant_user:50."""
    match = re.fullmatch(r"([A-Za-z_]+):([1-9]\d*)", person)
    if match is None or match[1].upper() not in USER_TYPES:
        types = " or ".join(f"{name.lower()}:ID" for name in USER_TYPES)
        raise CommandError(f"“{person}” is not a person: use AS={types}, for example AS=restaurant_user:50")
    issued = now or datetime.now(UTC)
    claims = {
        "sub": match[2],
        "user_type": match[1].upper(),
        "aud": AUDIENCE,
        "iat": issued,
        "exp": issued + LIFETIME,
    }
    return jwt.encode(claims, secret, algorithm="HS256")
