"""Query parameters and error statuses that several routes share."""

from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator

from reservation_api.schemas import LARGEST_ID, printable

Search = Annotated[
    str | None,
    Query(alias="q", min_length=1, max_length=200, description="A part of the name, an address or the external id."),
    AfterValidator(lambda text: printable(text) if text else text),
]
QueryId = Annotated[int | None, Query(ge=1, le=LARGEST_ID)]
Active = Annotated[bool | None, Query(description="Only active people, or only inactive ones.")]

# The errors of a route that changes something.
WRITE = (400, 409, 413, 415)
