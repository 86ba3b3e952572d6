"""Access tokens for test users, signed with a key that exists only in this process."""

import atexit
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from tablebell.tokens import SigningKey

AUDIENCE = "tablebell-tests"
ISSUER = "tablebell"
KEY = SigningKey.generate()

_directory = Path(tempfile.mkdtemp(prefix="tablebell-keys-"))
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
PRIVATE_KEY_FILE = _directory / "private.pem"
PRIVATE_KEY_FILE.write_bytes(KEY.private_pem)
PUBLIC_KEY_FILE = _directory / "public.pem"
PUBLIC_KEY_FILE.write_bytes(KEY.public_pem)


def claims(person: str = "RESTAURANT_USER:50", *, seconds: float = 600, **changed: Any) -> dict[str, Any]:
    """The claims of a token for an address (`CUSTOMER:5`). Those that are changed to None are left out."""
    user_type, _, user_id = person.partition(":")
    now = time.time()
    defaults = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user_id,
        "user_type": user_type,
        "jti": uuid.uuid4().hex,
        # A token that has expired was issued before that.
        "iat": now + min(seconds, 0),
        "exp": int(now + seconds),
    }
    return {name: value for name, value in (defaults | changed).items() if value is not None}


def token(person: str = "RESTAURANT_USER:50", *, seconds: float = 600, key: SigningKey = KEY, **changed: Any) -> str:
    """A token for an address (`CUSTOMER:5`) that expires in `seconds`. `changed` replaces claims."""
    return key.sign(claims(person, seconds=seconds, **changed))
