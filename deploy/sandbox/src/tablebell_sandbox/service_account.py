"""A service account: the file that Google hands out, made here, and what the sandbox checks against it."""

import hashlib
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


class InvalidServiceAccount(Exception):
    """The file is not a service account's."""


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
        """Readable by its owner only, from the first byte on."""
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(json.dumps(self._as_google_writes_it(), indent=2) + "\n")

    def public_key(self) -> rsa.RSAPublicKey:
        key = serialization.load_pem_private_key(self.private_key.encode(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError("its private key is not an RSA key")
        return key.public_key()

    def token_secret(self) -> bytes:
        """The same after a restart, so that a client's access token outlives the sandbox, as it would outlive FCM."""
        return hashlib.sha256(self.private_key.encode()).digest()

    def _as_google_writes_it(self) -> dict[str, str]:
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
