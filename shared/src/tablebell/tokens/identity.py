"""Who a token identifies, and the rules that its claims must follow. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tablebell.people import UserType

LONGEST_TOKEN_ID = 200


class BadToken(Exception):
    """The token is not valid. The message says why, without the token."""


@dataclass(frozen=True, slots=True)
class Identity:
    user_type: UserType
    user_id: int
    expires_at: datetime
    token_id: str
    """The token's `jti`, by which it can be revoked."""
    issued_at: float | None = None
    """The token's `iat`. All tokens of a person that were issued before a time can be revoked."""

    def is_revoked_by(self, issued_before: float) -> bool:
        """A token that does not tell when it was issued counts as an old one."""
        return self.issued_at is None or self.issued_at < issued_before


@dataclass(frozen=True, slots=True)
class TokenRules:
    audience: str
    issuer: str
    max_lifetime: float
    clock_skew: float
    """Seconds by which the issuer's clock may differ from ours."""

    def identify(self, claims: dict[str, Any], now: float) -> Identity:
        """The claims have a valid signature, audience and issuer, and `exp`, `nbf` and `iat` are plausible now."""
        subject, token_id = claims["sub"], claims["jti"]
        if not (isinstance(subject, str) and subject.isascii() and subject.isdigit() and len(subject) <= 18):
            raise BadToken("the token's sub is not a user id")
        if claims["user_type"] not in set(UserType):
            raise BadToken("the token's user_type is not known")
        if not (isinstance(token_id, str) and 0 < len(token_id) <= LONGEST_TOKEN_ID):
            raise BadToken(f"the token's jti is not a text of 1 to {LONGEST_TOKEN_ID} characters")
        expires = _seconds(claims, "exp")
        issued = _seconds(claims, "iat") if "iat" in claims else None
        # Without iat, the token may have been issued just now.
        issued_at_latest = now + self.clock_skew if issued is None else issued
        if expires - issued_at_latest > self.max_lifetime:
            raise BadToken(f"the token's lifetime is longer than {self.max_lifetime:.0f} s")
        return Identity(
            UserType(claims["user_type"]), int(subject), datetime.fromtimestamp(int(expires), UTC), token_id, issued
        )


def _seconds(claims: dict[str, Any], name: str) -> float:
    value = claims[name]
    # From 1970 to the end of the year 9999, which is as far as datetime goes.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 253_402_300_800:
        raise BadToken(f"the token's {name} is out of range")
    return float(value)
