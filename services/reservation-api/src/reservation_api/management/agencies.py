"""Agencies: list, create and change."""

from datetime import datetime
from typing import Any

import asyncpg
from asyncpg import Record
from pydantic import ConfigDict

from reservation_api.management import store
from reservation_api.management.changes import ChangeAct, Subject, change_record, record
from reservation_api.management.duplicates import duplicate
from reservation_api.management.fields import ExternalId, Name
from reservation_api.management.members import Member
from reservation_api.management.patch import Patch
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import not_found
from reservation_api.schemas import Body
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.postgres import Connection, Pool


class NewAgency(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "Viaggi Lanterna", "externalId": "A-7"}})

    name: Name
    external_id: ExternalId | None = None


class AgencyChange(Patch):
    """Omitted fields stay unchanged."""

    model_config = ConfigDict(json_schema_extra={"example": {"name": "Viaggi Lanterna"}})
    required = frozenset({"name"})

    name: Name | None = None
    external_id: ExternalId | None = None


class AgencyView(CamelModel):
    id: int
    external_id: str | None
    name: str
    created_at: datetime
    updated_at: datetime


class Agencies:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(self, q: str | None, cursor: str | None, limit: int) -> Page[AgencyView]:
        (after,) = decode(cursor, 1) if cursor else (0,)
        rows = await store.list_agencies(self._pool, after, q, limit + 1)
        items = [_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)

    async def find(self, agency_id: int) -> AgencyView:
        return _view(_found(await store.find_agency(self._pool, agency_id)))

    async def create(self, member: Member, agency: NewAgency) -> AgencyView:
        async def work(connection: Connection) -> AgencyView:
            agency_id = await store.append_agency(connection, agency.external_id, agency.name)
            change = change_record(Subject.AGENCY, agency_id, ChangeAct.CREATE, {}, agency.model_dump())
            await record(connection, member.key, change)
            return _view(_found(await store.find_agency(connection, agency_id)))

        return await self._unless_duplicate(work, agency.external_id)

    async def change(self, member: Member, agency_id: int, change: AgencyChange) -> AgencyView:
        fields = change.given()

        async def work(connection: Connection) -> AgencyView:
            before = _found(await store.find_agency(connection, agency_id))
            after = {"name": before["name"], "external_id": before["external_id"]} | fields
            if all(before[field] == value for field, value in after.items()):
                return _view(before)
            if not await store.change_agency_if_unchanged(
                connection, agency_id, after["external_id"], after["name"], before["updated_at"]
            ):
                raise asyncpg.SerializationError("the agency was changed at the same time")
            row = change_record(Subject.AGENCY, agency_id, ChangeAct.CHANGE, dict(before), after)
            await record(connection, member.key, row)
            return _view(_found(await store.find_agency(connection, agency_id)))

        return await self._unless_duplicate(work, fields.get("external_id"))

    async def _unless_duplicate(self, work: Any, external_id: str | None) -> AgencyView:
        try:
            agency: AgencyView = await in_transaction(self._pool, work)
        except asyncpg.UniqueViolationError:
            existing = await store.find_agency_by_external_id(self._pool, external_id) if external_id else None
            raise duplicate("externalId", "agency", existing) from None
        return agency


def _found(row: Record | None) -> Record:
    if row is None:
        raise not_found("agency")
    return row


def _view(row: Record) -> AgencyView:
    return AgencyView(
        id=row["id"],
        external_id=row["external_id"],
        name=row["name"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
