"""The record of changes: who changed what and when, with the fields before and after. Rows are never changed."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from asyncpg import Record
from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from reservation_api.management import store
from reservation_api.paging import Page, decode, encode
from reservation_api.schemas import LARGEST_ID
from tablebell.events import CamelModel
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool

Actor = tuple[UserType, int] | tuple[None, None]
# The actor of an operator's command.
NOBODY: Actor = (None, None)


class Subject(StrEnum):
    RESTAURANT = "RESTAURANT"
    AGENCY = "AGENCY"
    CUSTOMER = "CUSTOMER"
    RESTAURANT_USER = "RESTAURANT_USER"
    ADMIN_USER = "ADMIN_USER"
    AGENCY_USER = "AGENCY_USER"


class ChangeAct(StrEnum):
    CREATE = "CREATE"
    CHANGE = "CHANGE"
    DEACTIVATE = "DEACTIVATE"
    REACTIVATE = "REACTIVATE"
    SIGN_OUT = "SIGN_OUT"


class ChangeView(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 812,
                "subjectType": "RESTAURANT_USER",
                "subjectId": 51,
                "act": "CHANGE",
                "before": {"phone": "+393330000051"},
                "after": {"phone": "+393330000099"},
                "actorType": "RESTAURANT_USER",
                "actorId": 50,
                "actorName": "Giulia Ferri",
                "at": "2027-11-01T18:03:20.104211Z",
            }
        }
    )

    id: int
    subject_type: Subject
    subject_id: int
    act: ChangeAct
    before: dict[str, Any]
    """The changed fields only."""
    after: dict[str, Any]
    actor_type: UserType | None
    """null: an operator's command such as `make import`."""
    actor_id: int | None
    actor_name: str | None
    at: datetime


def change_record(
    subject: Subject, subject_id: int, act: ChangeAct, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """A row for `store.append_changes`: the fields that differ, under the names that they have in the API."""
    changed = [field for field in after if before.get(field) != after[field]]
    return {
        "subject_type": subject,
        "subject_id": subject_id,
        "act": act,
        "before": {to_camel(field): before[field] for field in changed if field in before},
        "after": {to_camel(field): after[field] for field in changed},
    }


async def record(connection: Connection, actor: Actor, change: Mapping[str, Any]) -> None:
    await store.append_changes(connection, actor, [change])


class Changes:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self,
        subject: tuple[Subject | None, int | None],
        actor: tuple[UserType | None, int | None],
        cursor: str | None,
        limit: int,
    ) -> Page[ChangeView]:
        """The newest first."""
        (before,) = decode(cursor, 1) if cursor else (LARGEST_ID,)
        rows = await store.list_changes(self._pool, before_id=before, subject=subject, actor=actor, limit=limit + 1)
        items = [_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)


def _view(row: Record) -> ChangeView:
    return ChangeView(
        id=row["id"],
        subject_type=row["subject_type"],
        subject_id=row["subject_id"],
        act=row["act"],
        before=row["before"],
        after=row["after"],
        actor_type=row["actor_type"],
        actor_id=row["actor_id"],
        actor_name=row["actor_name"],
        at=row["created_at"],
    )
