"""The settings of services that verify tokens, and of the one that issues them."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from tablebell.settings import FrozenSettings, is_confidential
from tablebell.tokens.identity import TokenRules
from tablebell.tokens.signing_key import SigningKey, load_public_keys

LONGEST_LIFETIME = 604_800
"""Seconds. The database keeps a revocation for longer than this (the table `revocation`)."""


def _check_signing_key(file: Path) -> Path:
    SigningKey.load(file)
    return file


def _check_public_keys(file: Path) -> Path:
    load_public_keys(file)
    return file


class SigningSettings(FrozenSettings):
    jwt_private_key_file: Annotated[Path, AfterValidator(_check_signing_key)] | None = None
    """PEM, EC P-256. The first key signs; further keys, private or public, are only accepted."""


class TokenSettings(FrozenSettings):
    jwt_audience: Annotated[str, Field(min_length=1)]
    jwt_issuer: Annotated[str, Field(min_length=1)] = "tablebell"
    jwt_max_lifetime_seconds: Annotated[float, Field(gt=0, le=LONGEST_LIFETIME)] = 86_400.0
    jwt_clock_skew_seconds: Annotated[float, Field(ge=0, le=300)] = 30.0
    jwt_secret: Annotated[SecretStr, Field(min_length=32)] | None = None
    """Tokens are HS256. Whoever verifies them can issue them too."""
    jwt_public_key_file: Annotated[Path, AfterValidator(_check_public_keys)] | None = None
    """PEM, EC P-256, one or more."""
    allow_http: bool = False
    """Allow http:// for other hosts than this machine, in a network that only the services can reach."""
    # The last of the sources of trust, because its validator compares all of them.
    jwt_jwks_url: Annotated[str | None, Field(pattern=r"^https?://", validate_default=True)] = None

    @field_validator("jwt_jwks_url")
    @classmethod
    def one_source_of_trust(cls, url: str | None, info: ValidationInfo) -> str | None:
        names = [name for name in SOURCES if name in cls.model_fields]
        known = {**info.data, "jwt_jwks_url": url}
        # An invalid value has its own error message.
        if all(name in known for name in names) and sum(known[name] is not None for name in names) != 1:
            raise ValueError(f"set exactly one of {', '.join(names).upper()} (a secret has at least 32 characters)")
        if url is not None and not is_confidential(url) and not info.data.get("allow_http"):
            raise ValueError("should be an https:// URL (http:// only for this machine, or with ALLOW_HTTP=true)")
        return url

    @property
    def token_rules(self) -> TokenRules:
        return TokenRules(
            self.jwt_audience, self.jwt_issuer, self.jwt_max_lifetime_seconds, self.jwt_clock_skew_seconds
        )


class IssuerSettings(TokenSettings, SigningSettings):
    """SigningSettings is the second base, so its field is validated before those of TokenSettings."""

    def signing_key(self) -> SigningKey | None:
        return SigningKey.load(self.jwt_private_key_file) if self.jwt_private_key_file else None


SOURCES = ("jwt_private_key_file", "jwt_public_key_file", "jwt_secret", "jwt_jwks_url")
