"""The ES256 keys of an issuer, from one PEM file: the first key signs, and all of them are published.

To rotate without refusing anyone: add the new key as the second one, restart the issuers, make it the first one,
restart them again, and remove the old key when the longest lifetime of a token has passed.
"""

import base64
import hashlib
import json
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from tablebell.people import UserType
from tablebell.tokens.keys import PublicKeys

PEM = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)


class BadKey(ValueError):
    """The file does not contain the keys that are needed."""


class SigningKey:
    def __init__(self, private: ec.EllipticCurvePrivateKey, others: Sequence[ec.EllipticCurvePublicKey] = ()) -> None:
        self._private = private
        self._published = [_jwk(key) for key in (private.public_key(), *others)]

    @classmethod
    def generate(cls) -> "SigningKey":
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def load(cls, file: Path) -> "SigningKey":
        first, *others = _read(file)
        if not isinstance(first, ec.EllipticCurvePrivateKey):
            raise BadKey("the first key of the file is not a private key")
        return cls(first, [_public(key) for key in others])

    @property
    def jwks(self) -> dict[str, Any]:
        """The public keys as RFC 7517 describes it."""
        return {"keys": self._published}

    @property
    def private_pem(self) -> bytes:
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def public_pem(self) -> bytes:
        return self._private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verification_keys(self) -> PublicKeys:
        return _verification_keys(self._published)

    def issue(
        self,
        user_type: UserType | str,
        user_id: int | str,
        *,
        audience: str,
        issuer: str,
        seconds: float,
        token_id: str | None = None,
    ) -> str:
        now = time.time()
        claims = {
            "iss": issuer,
            "aud": audience,
            "sub": str(user_id),
            "user_type": str(user_type),
            "jti": token_id or secrets.token_urlsafe(16),
            "iat": now,
            "exp": int(now + seconds),
        }
        return self.sign(claims)

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self._private, algorithm="ES256", headers={"kid": self._published[0]["kid"]})


def load_public_keys(file: Path) -> PublicKeys:
    """The keys of a PEM file, private or public."""
    return _verification_keys([_jwk(_public(key)) for key in _read(file)])


def _read(file: Path) -> list[ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey]:
    try:
        blocks = [(match[1], match[0]) for match in PEM.finditer(file.read_bytes())]
    except OSError as error:
        raise BadKey(f"the file cannot be read: {error.strerror}") from None
    if not blocks:
        raise BadKey("the file contains no key in PEM format")
    keys: list[ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey] = []
    for label, block in blocks:
        try:
            key = load_pem_public_key(block) if b"PUBLIC" in label else load_pem_private_key(block, password=None)
        except (ValueError, TypeError):
            raise BadKey("the file contains a key that cannot be read") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
            raise BadKey("the file contains a key that is not an EC key of the curve P-256")
        keys.append(key)
    return keys


def _public(key: ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) -> ec.EllipticCurvePublicKey:
    return key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey) else key


def _jwk(key: ec.EllipticCurvePublicKey) -> dict[str, Any]:
    """With the thumbprint (RFC 7638) as `kid`, so that all replicas give a key the same name."""
    members: dict[str, str] = jwt.algorithms.ECAlgorithm.to_jwk(key, as_dict=True)
    canonical = json.dumps({name: members[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
    thumbprint = base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).rstrip(b"=").decode()
    return {**members, "kid": thumbprint, "use": "sig", "alg": "ES256"}


def _verification_keys(published: Sequence[dict[str, Any]]) -> PublicKeys:
    return PublicKeys({key["kid"]: jwt.PyJWK(key) for key in published})
