"""People of all four types: list, create, change, deactivate, reactivate and sign out.

A deactivated person is not notified any more: their unsent messages are withdrawn in the same transaction.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
from asyncpg import Record

from reservation_api.access import revoke_all_tokens
from reservation_api.management import store
from reservation_api.management.changes import ChangeAct, Subject, change_record, record
from reservation_api.management.duplicates import duplicate
from reservation_api.management.fields import Role
from reservation_api.management.members import Member
from reservation_api.management.person import FIELDS, PersonView, check_fields, fields_of_new, view
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import Problem, ProblemType, not_found
from reservation_api.transaction import in_transaction
from tablebell.outbox import withdraw_channel_sends
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool

# A restaurant always keeps a manager, and the system an admin.
LEADING_ROLES = {UserType.RESTAURANT_USER: Role.MANAGER, UserType.ADMIN_USER: Role.ADMIN}


@dataclass(frozen=True, slots=True)
class Scope:
    """The people whom a member manages: everyone, or those of one restaurant, of one agency, or themselves."""

    restaurant_id: int | None = None
    agency_id: int | None = None
    user_id: int | None = None

    def covers(self, row: store.Row) -> bool:
        wanted = (self.restaurant_id, self.agency_id, self.user_id)
        actual = (row["restaurant_id"], row["agency_id"], row["user_id"])
        return all(one is None or one == other for one, other in zip(wanted, actual, strict=True))


EVERYONE = Scope()


class PeopleAdmin:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(
        self,
        user_type: UserType,
        scope: Scope,
        *,
        q: str | None,
        active: bool | None,
        cursor: str | None,
        limit: int,
    ) -> Page[PersonView]:
        (after,) = decode(cursor, 1) if cursor else (0,)
        rows = await store.list_people(
            self._pool,
            user_type,
            after_id=after,
            q=q,
            restaurant_id=scope.restaurant_id,
            agency_id=scope.agency_id,
            active=active,
            limit=limit + 1,
        )
        items = [view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)

    async def find(self, user_type: UserType, user_id: int, scope: Scope) -> Record:
        row = await store.find_managed_person(self._pool, user_type, user_id)
        if row is None or not scope.covers(row):
            raise not_found("person")
        return row

    async def create(self, member: Member, user_type: UserType, scope: Scope, given: Mapping[str, Any]) -> PersonView:
        """`scope` is the restaurant or agency that the new person belongs to, unless the member is an admin."""
        places = {"restaurant_id": scope.restaurant_id, "agency_id": scope.agency_id}
        fields = fields_of_new(user_type, {**given, **{key: value for key, value in places.items() if value}})

        async def work(connection: Connection) -> Record:
            (user_id,) = await store.append_people(connection, user_type, [fields])
            row = await _find(connection, user_type, user_id, scope)
            await record(
                connection, member.key, change_record(Subject(user_type), user_id, ChangeAct.CREATE, {}, _fields(row))
            )
            return row

        return view(await self._unless_refused(work, user_type, scope, fields, None))

    async def change(
        self, member: Member, user_type: UserType, user_id: int, scope: Scope, given: Mapping[str, Any]
    ) -> Record:
        async def work(connection: Connection) -> Record:
            row = await _find(connection, user_type, user_id, scope)
            before = _fields(row)
            after = {**before, **given}
            if after == before:
                return row
            check_fields(user_type, after)
            if given.keys() & {"email", "phone"} and after["email"] is None and after["phone"] is None:
                raise Problem.of_field("email", "An e-mail address or a telephone number is required.")
            leaves = before["active"] and not after["active"]
            if leaves and (user_type, user_id) == member.key:
                raise Problem(ProblemType.NOT_POSSIBLE_NOW, "You cannot deactivate yourself.")
            if _loses_lead(user_type, scope, before, after):
                await _require_another_leader(connection, row)
            if leaves:
                await store.lock_expansion(connection)
            changed = {**after, "user_id": user_id, "updated_at": row["updated_at"]}
            if not await store.change_people_if_unchanged(connection, user_type, [changed]):
                raise asyncpg.SerializationError("the person was changed at the same time")
            if leaves:
                await _withdraw(connection, user_type, user_id)
            act = ChangeAct.CHANGE
            if before["active"] != after["active"]:
                act = ChangeAct.DEACTIVATE if leaves else ChangeAct.REACTIVATE
            await record(connection, member.key, change_record(Subject(user_type), user_id, act, before, after))
            return await _find(connection, user_type, user_id, EVERYONE)

        return await self._unless_refused(work, user_type, scope, given, user_id)

    async def sign_out(self, member: Member, user_type: UserType, user_id: int) -> None:
        """End every token that the person has now."""

        async def work(connection: Connection) -> None:
            await _find(connection, user_type, user_id, EVERYONE)
            await revoke_all_tokens(connection, user_type, user_id)
            await record(connection, member.key, change_record(Subject(user_type), user_id, ChangeAct.SIGN_OUT, {}, {}))

        await in_transaction(self._pool, work)

    async def _unless_refused(
        self,
        work: Callable[[Connection], Awaitable[Record]],
        user_type: UserType,
        scope: Scope,
        given: Mapping[str, Any],
        user_id: int | None,
    ) -> Record:
        try:
            return await in_transaction(self._pool, work)
        except asyncpg.ForeignKeyViolationError as error:
            what = "restaurant" if "restaurant_id" in str(error.constraint_name) else "agency"
            raise Problem.of_field(f"{what}Id", f"The {what} does not exist.") from None
        except asyncpg.UniqueViolationError:
            raise await self._duplicate(user_type, scope, given, user_id) from None

    async def _duplicate(
        self, user_type: UserType, scope: Scope, given: Mapping[str, Any], user_id: int | None
    ) -> Problem:
        email, phone, external_id = (given.get(field) for field in ("email", "phone", "external_id"))
        rows = await store.find_people_by_keys(
            self._pool,
            user_type,
            external_ids=[external_id] if external_id else [],
            emails=[email.lower()] if email else [],
            phones=[phone] if phone else [],
        )
        for row in rows:
            if row["user_id"] == user_id:
                continue
            same = "phone"
            if email and (row["email"] or "").lower() == email.lower():
                same = "email"
            elif external_id and row["external_id"] == external_id:
                same = "externalId"
            # A manager or an agency does not learn the ids of people elsewhere.
            return duplicate(same, "person", row["user_id"] if scope.covers(row) else None)
        return duplicate("email", "person", None)


async def _find(connection: Connection, user_type: UserType, user_id: int, scope: Scope) -> Record:
    row = await store.find_managed_person(connection, user_type, user_id)
    if row is None or not scope.covers(row):
        raise not_found("person")
    return row


def _fields(row: Record) -> dict[str, Any]:
    return {field: row[field] for field in FIELDS}


def _loses_lead(user_type: UserType, scope: Scope, before: store.Row, after: store.Row) -> bool:
    """Whether a manager or an admin would lose the role or leave. Admins may leave a restaurant without a manager."""
    role = LEADING_ROLES.get(user_type)
    if role is None or (user_type is UserType.RESTAURANT_USER and scope.restaurant_id is None):
        return False
    return before["role"] == role and before["active"] and not (after["role"] == role and after["active"])


async def _require_another_leader(connection: Connection, row: store.Row) -> None:
    """Raises a Problem if the person is the last active manager of the restaurant, or the last active admin."""
    user_type, restaurant_id, role = UserType(row["user_type"]), row["restaurant_id"], row["role"]
    await store.lock_roles(connection, user_type, restaurant_id)
    if not await store.count_others_with_role(connection, user_type, restaurant_id, role, row["user_id"]):
        raise Problem(ProblemType.NOT_POSSIBLE_NOW, f"This is the last active {role}. Appoint another one first.")


async def _withdraw(connection: Connection, user_type: UserType, user_id: int) -> None:
    ids = await store.find_unsent_of_person(connection, user_type, user_id)
    reasons = ["the recipient is not active any more"] * len(ids)
    await withdraw_channel_sends(connection, ids, reasons, user_type, user_id)
