"""What ws-gateway, which has no database, asks reservation-api about the people at its sockets. Pure.

The gateway reads the list of revocations at its start and every few seconds, so a gateway that was away misses none.
It also asks once per connection whether the person exists and is active.
"""

from typing import Annotated

from pydantic import Field

from tablebell.events import CamelModel

REVOCATIONS_PATH = "/internal/revocations"
PEOPLE_PATH = "/internal/people/without-access"
MAX_PEOPLE = 400
"""In one request: its body stays below the default of BODY_LIMIT_BYTES."""

Address = Annotated[str, Field(pattern=r"^[A-Z_]{1,20}:[0-9]{1,18}$")]
"""CUSTOMER:5"""


class Revocation(CamelModel):
    """One token of a person, or all that were issued before a time (in seconds since 1970)."""

    person: Address
    token_id: str | None
    issued_before: float


class RevocationList(CamelModel):
    revocations: list[Revocation]


class People(CamelModel):
    people: Annotated[list[Address], Field(max_length=MAX_PEOPLE)]
