import time
from pathlib import Path

import pytest

from tablebell.people import UserType
from tablebell.tokens import TokenRules, TokenVerifier
from tablebell.tokens.signing_key import load_public_keys
from tablebell_local.credentials import create_signing_key
from tablebell_local.errors import CommandError
from tablebell_tools.tokens import TokenIssuer


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    create_signing_key(tmp_path / "key.pem")
    return tmp_path / "key.pem"


async def test_a_token_is_valid_for_the_person_for_12_hours(key_file: Path) -> None:
    verifier = TokenVerifier(load_public_keys(key_file), TokenRules("tablebell", "tablebell", 86_400, 0))

    identity = await verifier.verify(TokenIssuer(key_file).issue("restaurant_user:50"))

    assert (identity.user_type, identity.user_id) == (UserType.RESTAURANT_USER, 50)
    assert 43_190 < identity.expires_at.timestamp() - time.time() <= 43_200


@pytest.mark.parametrize(
    "person", ["", "50", "restaurant_user", "waiter:50", "customer:", "customer:0", "customer:x", "customer:5 "]
)
def test_an_invalid_person_is_refused_with_a_hint(key_file: Path, person: str) -> None:
    with pytest.raises(CommandError, match="AS=customer:ID or restaurant_user:ID"):
        TokenIssuer(key_file).issue(person)
