from datetime import UTC, datetime, timedelta

import jwt
import pytest

from tablebell_local.errors import CommandError
from tablebell_tools.tokens import issue

SECRET = "s" * 43


def test_a_token_contains_the_person_and_the_expiry() -> None:
    now = datetime.now(UTC).replace(microsecond=0)

    claims = jwt.decode(issue("restaurant_user:50", SECRET, now), SECRET, ["HS256"], audience="tablebell")

    assert claims["sub"] == "50"
    assert claims["user_type"] == "RESTAURANT_USER"
    assert datetime.fromtimestamp(claims["exp"], UTC) == now + timedelta(hours=12)


@pytest.mark.parametrize(
    "person", ["", "50", "restaurant_user", "waiter:50", "customer:", "customer:0", "customer:x", "customer:5 "]
)
def test_an_invalid_person_is_refused_with_a_hint(person: str) -> None:
    with pytest.raises(CommandError, match="AS=customer:ID or restaurant_user:ID"):
        issue(person, SECRET)
