"""The queries of the management: one function per block of `sql/queries.sql`. None of them commits."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from asyncpg import Record

from tablebell.people import UserType
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = dict(load_queries("reservation_api.management", "sql", "queries.sql"))

Fields = Mapping[str, Any]
# A record, or a copy of one with changed values.
Row = Record | Mapping[str, Any]


async def find_member(connection: Executor, user_type: UserType, user_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_member"], user_type, user_id)


async def find_managed_person(connection: Executor, user_type: UserType, user_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_managed_person"], user_type, user_id)


async def list_people(
    connection: Executor,
    user_type: UserType,
    *,
    after_id: int,
    q: str | None,
    restaurant_id: int | None,
    agency_id: int | None,
    active: bool | None,
    limit: int,
) -> list[Record]:
    return await connection.fetch(SQL["list_people"], user_type, after_id, q, restaurant_id, agency_id, active, limit)


async def find_people_by_keys(
    connection: Executor,
    user_type: UserType,
    *,
    external_ids: Iterable[str],
    emails: Iterable[str],
    phones: Iterable[str],
) -> list[Record]:
    """`emails` are in lower case."""
    return await connection.fetch(SQL["find_people_by_keys"], user_type, list(external_ids), list(emails), list(phones))


async def append_people(connection: Connection, user_type: UserType, people: Sequence[Fields]) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["append_people"], user_type, people)]


async def change_people_if_unchanged(
    connection: Connection, user_type: UserType, people: Sequence[Fields]
) -> list[int]:
    return [row["id"] for row in await connection.fetch(SQL["change_people_if_unchanged"], user_type, people)]


async def lock_roles(connection: Connection, user_type: UserType, restaurant_id: int | None) -> None:
    await connection.execute(SQL["lock_roles"], user_type, restaurant_id)


async def count_others_with_role(
    connection: Connection, user_type: UserType, restaurant_id: int | None, role: str, user_id: int
) -> int:
    count: int = await connection.fetchval(SQL["count_others_with_role"], user_type, restaurant_id, role, user_id)
    return count


async def lock_expansion(connection: Connection) -> None:
    await connection.execute(SQL["lock_expansion"])


async def find_unsent_of_person(connection: Connection, user_type: UserType, user_id: int) -> list[int]:
    rows = await connection.fetch(SQL["find_unsent_of_person"], user_type, user_id)
    return [row["event_notification_id"] for row in rows]


async def list_restaurants(connection: Executor, after_id: int, q: str | None, limit: int) -> list[Record]:
    return await connection.fetch(SQL["list_restaurants"], after_id, q, limit)


async def find_managed_restaurant(connection: Executor, restaurant_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_managed_restaurant"], restaurant_id)


async def append_restaurant(connection: Connection, restaurant: Fields) -> int:
    created: int = await connection.fetchval(SQL["append_restaurant"], restaurant)
    return created


async def change_restaurant_if_unchanged(connection: Connection, restaurant: Fields) -> bool:
    return await connection.fetchval(SQL["change_restaurant_if_unchanged"], restaurant) is not None


async def delete_closures(connection: Connection, restaurant_id: int) -> None:
    await connection.execute(SQL["delete_closures"], restaurant_id)


async def append_closures(
    connection: Connection, restaurant_id: int, days: Sequence[date], reasons: Sequence[str | None]
) -> None:
    await connection.execute(SQL["append_closures"], restaurant_id, days, reasons)


async def find_restaurant_ids(connection: Executor, ids: Iterable[int]) -> set[int]:
    return {row["id"] for row in await connection.fetch(SQL["find_restaurant_ids"], list(ids))}


async def find_restaurant_by_external_id(connection: Executor, external_id: str) -> int | None:
    found: int | None = await connection.fetchval(SQL["find_restaurant_by_external_id"], external_id)
    return found


async def list_agencies(connection: Executor, after_id: int, q: str | None, limit: int) -> list[Record]:
    return await connection.fetch(SQL["list_agencies"], after_id, q, limit)


async def find_agency(connection: Executor, agency_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_agency"], agency_id)


async def append_agency(connection: Connection, external_id: str | None, name: str) -> int:
    created: int = await connection.fetchval(SQL["append_agency"], external_id, name)
    return created


async def change_agency_if_unchanged(
    connection: Connection, agency_id: int, external_id: str | None, name: str, updated_at: datetime
) -> bool:
    changed = await connection.fetchval(SQL["change_agency_if_unchanged"], agency_id, external_id, name, updated_at)
    return changed is not None


async def find_agency_ids(connection: Executor, ids: Iterable[int]) -> set[int]:
    return {row["id"] for row in await connection.fetch(SQL["find_agency_ids"], list(ids))}


async def find_agency_by_external_id(connection: Executor, external_id: str) -> int | None:
    found: int | None = await connection.fetchval(SQL["find_agency_by_external_id"], external_id)
    return found


async def append_changes(
    connection: Connection, actor: tuple[UserType, int] | tuple[None, None], changes: Sequence[Fields]
) -> None:
    await connection.execute(SQL["append_changes"], *actor, changes)


async def list_changes(
    connection: Executor,
    *,
    before_id: int,
    subject: tuple[str | None, int | None],
    actor: tuple[UserType | None, int | None],
    limit: int,
) -> list[Record]:
    return await connection.fetch(SQL["list_changes"], before_id, *subject, *actor, limit)
