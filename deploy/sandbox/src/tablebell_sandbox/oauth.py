"""Google's token endpoint: exchanges a signed assertion for a bearer token.

With a service account the assertion's signature, issuer and audience are checked; without one any is accepted.
Access tokens contain their expiry and a signature, so no token has to be stored.
"""

import hmac
import secrets
import time
from collections.abc import Callable, Mapping

import jwt
from jwt.types import Options

from tablebell_sandbox.service_account import ServiceAccount

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLAIMS = ["iss", "aud", "iat", "exp"]


class OAuthError(Exception):
    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


class TokenIssuer:
    def __init__(self, lifetime: float, clock: Callable[[], float] = time.time) -> None:
        self.lifetime = lifetime
        self._clock = clock
        self._account: ServiceAccount | None = None
        self._secret = secrets.token_bytes(32)

    @property
    def project(self) -> str | None:
        return self._account.project_id if self._account else None

    def trust(self, account: ServiceAccount) -> None:
        self._account = account
        self._secret = account.token_secret()

    def exchange(self, form: Mapping[str, str]) -> str:
        if form.get("grant_type") != JWT_BEARER:
            raise OAuthError("unsupported_grant_type", f"Invalid grant_type: {form.get('grant_type', '')}")
        try:
            self._check(form.get("assertion", ""))
        except jwt.InvalidSignatureError as error:
            raise OAuthError("invalid_grant", "Invalid JWT Signature.") from error
        except jwt.PyJWTError as error:
            raise OAuthError("invalid_grant", f"Invalid JWT: {error}") from error
        expiry = f"{self._clock() + self.lifetime:.3f}"
        return f"ya29.{expiry}.{self._sign(expiry)}"

    def accepts(self, token: str) -> bool:
        expiry, _, signature = token.removeprefix("ya29.").rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(expiry).encode()):
            return False
        return float(expiry) > self._clock()

    def _check(self, assertion: str) -> None:
        if self._account is None:
            unverified: Options = {"verify_signature": False, "verify_exp": True, "require": CLAIMS}
            jwt.decode(assertion, options=unverified)
            return
        jwt.decode(
            assertion,
            self._account.public_key(),
            algorithms=["RS256"],
            issuer=self._account.client_email,
            audience=self._account.token_uri,
            options={"require": CLAIMS},
        )

    def _sign(self, expiry: str) -> str:
        return hmac.digest(self._secret, expiry.encode(), "sha256").hex()
