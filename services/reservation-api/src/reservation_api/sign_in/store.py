"""The queries of the sign-in: one function per block of `sql/queries.sql`. None of them commits."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from asyncpg import Record

from tablebell.people import UserType
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = dict(load_queries("reservation_api.sign_in", "sql", "queries.sql"))


async def lock_address(connection: Connection, address_hash: bytes) -> None:
    await connection.execute(SQL["lock_address"], address_hash)


async def find_people_by_email(connection: Executor, address: str) -> list[Record]:
    return await connection.fetch(SQL["find_people_by_email"], address)


async def append_sign_in(
    connection: Connection,
    *,
    address_hash: bytes,
    code_hash: bytes,
    challenge: bytes | None,
    people: Sequence[str],
    lifetime: timedelta,
    per_hour: int,
    user_type: str,
    user_id: int,
    recipient: str | None,
    message: Mapping[str, Any],
    headers: Mapping[str, Any],
) -> bool:
    allowed: bool = await connection.fetchval(
        SQL["append_sign_in"],
        address_hash,
        code_hash,
        challenge,
        people,
        lifetime,
        per_hour,
        user_type,
        user_id,
        recipient,
        message,
        headers,
    )
    return allowed


async def find_sign_in_for_update(
    connection: Connection, code_hash: bytes, verifier_hash: bytes | None
) -> Record | None:
    return await connection.fetchrow(SQL["find_sign_in_for_update"], code_hash, verifier_hash)


async def list_choices(connection: Executor, people: Sequence[str], address_hash: bytes | None) -> list[Record]:
    return await connection.fetch(SQL["list_choices"], people, address_hash)


async def lock_active_person(connection: Connection, user_type: UserType, user_id: int) -> bool:
    return await connection.fetchval(SQL["lock_active_person"], user_type, user_id) is not None


async def use_sign_in(connection: Connection, sign_in_id: int) -> None:
    await connection.execute(SQL["use_sign_in"], sign_in_id)


async def append_session(
    connection: Connection,
    session_id: UUID,
    user_type: UserType,
    user_id: int,
    *,
    token_hash: bytes,
    lifetime: timedelta,
) -> None:
    await connection.execute(SQL["append_session"], session_id, user_type, user_id, token_hash, lifetime)


async def find_session_for_update(
    connection: Connection, session_id: UUID, given_hash: bytes, grace: timedelta
) -> Record | None:
    return await connection.fetchrow(SQL["find_session_for_update"], session_id, given_hash, grace)


async def rotate_session(
    connection: Connection, session_id: UUID, *, replaced_hash: bytes, new_hash: bytes, salt: bytes, lifetime: timedelta
) -> None:
    await connection.execute(SQL["rotate_session"], session_id, replaced_hash, new_hash, salt, lifetime)


async def purge_sign_ins(connection: Executor, retention: timedelta, limit: int) -> int:
    return int((await connection.execute(SQL["purge_sign_ins"], retention, limit)).split()[-1])


async def purge_sessions(connection: Executor, after_expiry: timedelta, limit: int) -> int:
    return int((await connection.execute(SQL["purge_sessions"], after_expiry, limit)).split()[-1])
