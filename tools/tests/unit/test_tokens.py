from datetime import UTC, datetime, timedelta

import jwt
import pytest

from tablebell_local.failure import Failure
from tablebell_tools.tokens import issue

SECRET = "s" * 43


def test_a_token_says_who_and_for_how_long() -> None:
    now = datetime.now(UTC).replace(microsecond=0)

    claims = jwt.decode(issue("restaurant_user:50", SECRET, now), SECRET, ["HS256"], audience="tablebell")

    assert claims["sub"] == "50"
    assert claims["user_type"] == "RESTAURANT_USER"
    assert datetime.fromtimestamp(claims["exp"], UTC) == now + timedelta(hours=12)


@pytest.mark.parametrize(
    "person", ["", "50", "restaurant_user", "waiter:50", "customer:", "customer:0", "customer:x", "customer:5 "]
)
def test_nobody_gets_no_token_but_a_message_that_says_who_can(person: str) -> None:
    with pytest.raises(Failure, match="AS=customer:ID or restaurant_user:ID"):
        issue(person, SECRET)
