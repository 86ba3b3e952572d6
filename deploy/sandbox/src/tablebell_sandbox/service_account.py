"""A Google service account: generates its key file, and verifies assertions against it."""

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


class InvalidServiceAccount(Exception):
    """The file is not a service account's key file."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    project_id: str
    private_key_id: str
    private_key: str
    client_email: str
    token_uri: str

    @classmethod
    def generate(cls, project: str, token_uri: str) -> Self:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        email = f"sandbox@{project}.iam.gserviceaccount.com"
        return cls(project, secrets.token_hex(20), pem.decode(), email, token_uri)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            fields = json.loads(path.read_text())
            account = cls(**{name: str(fields[name]) for name in cls.__slots__})
            account.public_key()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidServiceAccount(f"{path} is not a service account's file: {error!r}") from error
        return account

    def write(self, path: Path) -> None:
        """Creates the file with owner-only permissions before it writes the key."""
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(json.dumps(self._key_file(), indent=2) + "\n")

    def public_key(self) -> rsa.RSAPublicKey:
        key = serialization.load_pem_private_key(self.private_key.encode(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError("its private key is not an RSA key")
        return key.public_key()

    def token_secret(self) -> bytes:
        """Derived from the key: access tokens stay valid after a restart of the sandbox."""
        return hashlib.sha256(self.private_key.encode()).digest()

    def _key_file(self) -> dict[str, str]:
        return {
            "type": "service_account",
            "project_id": self.project_id,
            "private_key_id": self.private_key_id,
            "private_key": self.private_key,
            "client_email": self.client_email,
            "client_id": str(int(self.private_key_id[:16], 16)),
            "auth_uri": self.token_uri,
            "token_uri": self.token_uri,
            "universe_domain": "googleapis.com",
        }
