"""Tokens for the people of the demo data."""

import re
from datetime import timedelta
from pathlib import Path

from tablebell.tokens import SigningKey
from tablebell_local.errors import CommandError
from tablebell_local.services import JWT_AUDIENCE

ISSUER = "tablebell"
LIFETIME = timedelta(hours=12)
USER_TYPES = ("CUSTOMER", "RESTAURANT_USER", "ADMIN_USER", "AGENCY_USER")


class TokenIssuer:
    """Signs tokens with the key of reservation-api."""

    def __init__(self, key_file: Path) -> None:
        self._key = SigningKey.load(key_file)

    def issue(self, person: str) -> str:
        """`person` has the form restaurant_user:50."""
        match = re.fullmatch(r"([A-Za-z_]+):([1-9]\d*)", person)
        if match is None or match[1].upper() not in USER_TYPES:
            types = " or ".join(f"{name.lower()}:ID" for name in USER_TYPES)
            raise CommandError(f"“{person}” is not a person: use AS={types}, for example AS=restaurant_user:50")
        return self._key.issue(
            match[1].upper(), match[2], audience=JWT_AUDIENCE, issuer=ISSUER, seconds=LIFETIME.total_seconds()
        )
