"""Keyset pagination with opaque cursors: rows that are added meanwhile do not shift the pages."""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import Field

from reservation_api.problem import Problem
from reservation_api.schemas import LARGEST_ID
from tablebell.events import CamelModel

LARGEST_PAGE = 100

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Maximum number of items.")]
Cursor = Annotated[
    str | None,
    Query(max_length=100, pattern="^[A-Za-z0-9_-]+$", description="`nextCursor` of the previous page."),
]

T = TypeVar("T")


class Page(CamelModel, Generic[T]):
    items: list[T]
    next_cursor: str | None = Field(None, description="The `cursor` of the next page; null on the last page.")


def encode(*position: int) -> str:
    return base64.urlsafe_b64encode(".".join(map(str, position)).encode()).decode().rstrip("=")


def decode(cursor: str, size: int) -> Sequence[int]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    if not re.fullmatch(r"-?\d{1,19}(\.-?\d{1,19})*", text, re.ASCII):
        raise _invalid_cursor()
    position = [int(part) for part in text.split(".")]
    if len(position) != size or any(abs(part) > LARGEST_ID for part in position):
        raise _invalid_cursor()
    return position


def _invalid_cursor() -> Problem:
    return Problem.of_field("cursor", "The cursor is not valid.")
