"""The queries of reservation-api: one function per block of `sql/queries.sql`. None of them commits."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from asyncpg import Record

from reservation_api.domain.limits import Limits
from reservation_api.domain.reservation import Action, Reservation
from tablebell.people import UserType
from tablebell.postgres import Connection, Executor
from tablebell.sqlfile import load_queries

SQL = dict(load_queries("reservation_api", "sql", "queries.sql"))

# A record, or a copy of one with changed values.
Row = Record | Mapping[str, Any]


async def find_restaurant(connection: Executor, restaurant_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_restaurant"], restaurant_id)


async def find_person(connection: Executor, user_type: UserType, user_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_person"], user_type, user_id)


async def find_access(connection: Executor, user_type: UserType, user_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_access"], user_type, user_id)


async def list_people_without_access(
    connection: Executor, user_types: Sequence[str], user_ids: Sequence[int]
) -> list[Record]:
    return await connection.fetch(SQL["list_people_without_access"], user_types, user_ids)


async def append_revocation(connection: Executor, user_type: UserType, user_id: int, token_id: str | None) -> None:
    await connection.execute(SQL["append_revocation"], user_type, user_id, token_id)


async def list_revocations(connection: Executor) -> list[Record]:
    return await connection.fetch(SQL["list_revocations"])


async def purge_revocations(connection: Executor, after_expiry: timedelta, limit: int) -> int:
    return int((await connection.execute(SQL["purge_revocations"], after_expiry, limit)).split()[-1])


async def ask_reservation(
    connection: Executor,
    *,
    asker: tuple[UserType, int],
    customer_id: int,
    restaurant_id: int,
    party_size: int,
    slot_time: datetime,
    note: str | None,
    event: Mapping[str, Any],
    limits: Limits,
) -> Record | None:
    return await connection.fetchrow(
        SQL["ask_reservation"],
        *asker,
        customer_id,
        restaurant_id,
        party_size,
        slot_time,
        note,
        event,
        limits.table_gap,
        limits.open_requests_per_customer,
        limits.open_requests_per_restaurant,
        limits.requests_per_hour,
    )


async def find_reservation_of_guest(
    connection: Executor, reservation_id: int, user_type: UserType, user_id: int
) -> Record | None:
    return await connection.fetchrow(SQL["find_reservation_of_guest"], reservation_id, user_type, user_id)


async def list_reservations_of_customer(
    connection: Executor, customer_id: int, status: str | None, before_id: int, limit: int
) -> list[Record]:
    return await connection.fetch(SQL["list_reservations_of_customer"], customer_id, status, before_id, limit)


async def list_reservations_of_agency(
    connection: Executor, agent_id: int, *, customer_id: int | None, status: str | None, before_id: int, limit: int
) -> list[Record]:
    return await connection.fetch(SQL["list_reservations_of_agency"], agent_id, customer_id, status, before_id, limit)


async def list_reservations_of_staff(
    connection: Executor,
    staff_id: int,
    *,
    status: str | None,
    day: date | None,
    name: str | None,
    phone: str | None,
    after: tuple[datetime, int],
    limit: int,
) -> list[Record]:
    return await connection.fetch(SQL["list_reservations_of_staff"], staff_id, status, day, name, phone, *after, limit)


async def lock_reservation(connection: Connection, reservation_id: int) -> Record | None:
    return await connection.fetchrow(SQL["lock_reservation"], reservation_id)


async def change_reservation(connection: Connection, reservation_id: int, to: Reservation) -> datetime:
    """Return the new `updated_at`."""
    changed: datetime = await connection.fetchval(
        SQL["change_reservation"],
        reservation_id,
        to.status,
        to.version,
        to.party_size,
        to.slot_time,
        to.proposed_time,
        to.note,
    )
    return changed


async def find_reached_limit(
    connection: Connection, reservation: Row, changer: tuple[UserType, int], new_time: datetime | None, limits: Limits
) -> Record | None:
    return await connection.fetchrow(
        SQL["find_reached_limit"],
        reservation["customer_id"],
        reservation["restaurant_id"],
        *changer,
        reservation["id"],
        new_time,
        limits.table_gap,
        limits.changes_per_hour,
    )


async def append_events(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    await connection.execute(SQL["append_events"], list(rows))


async def withdraw_planned_events(connection: Connection, reservation_id: int, reason: str) -> None:
    await connection.execute(SQL["withdraw_planned_events"], reservation_id, reason)


async def withdraw_decision_if_planned(
    connection: Connection, reservation_id: int, version: int, reason: str
) -> int | None:
    """The id of the event; None if it is due, leased or published."""
    found: int | None = await connection.fetchval(SQL["withdraw_decision_if_planned"], reservation_id, version, reason)
    return found


async def publish_decision_if_planned(connection: Connection, reservation_id: int, version: int) -> None:
    await connection.execute(SQL["publish_decision_if_planned"], reservation_id, version)


async def find_notification(
    connection: Executor, user_type: UserType, user_id: int, notification_id: int
) -> Record | None:
    return await connection.fetchrow(SQL["find_notification"], user_type, user_id, notification_id)


async def lock_shared_notifications(
    connection: Connection, reservation_id: int, version: int, user_type: UserType, user_id: int
) -> list[Record]:
    return await connection.fetch(SQL["lock_shared_notifications"], reservation_id, version, user_type, user_id)


async def find_first_action(connection: Connection, reservation_id: int, version: int) -> Record | None:
    return await connection.fetchrow(SQL["find_first_action"], reservation_id, version)


async def find_resulting_action(connection: Connection, reservation_id: int, version: int) -> Record | None:
    return await connection.fetchrow(SQL["find_resulting_action"], reservation_id, version)


async def has_acted(connection: Connection, reservation_id: int, notification_id: int, action: Action) -> bool:
    return bool(await connection.fetchval(SQL["has_acted"], reservation_id, notification_id, action))


async def append_action(
    connection: Connection,
    *,
    event_notification_id: int | None,
    notification_id: int | None,
    reservation_id: int,
    version: int,
    resulting_version: int | None,
    actor: tuple[UserType, int],
    action: Action,
    outcome: Mapping[str, Any] | None,
    decides: bool,
) -> datetime:
    """Return the action's `created_at`."""
    done: datetime = await connection.fetchval(
        SQL["append_action"],
        event_notification_id,
        notification_id,
        reservation_id,
        version,
        resulting_version,
        *actor,
        action,
        outcome,
        decides,
    )
    return done


async def list_notifications(
    connection: Executor, user_type: UserType, user_id: int, before_id: int, limit: int
) -> list[Record]:
    return await connection.fetch(SQL["list_notifications"], user_type, user_id, before_id, limit)


async def list_unread_notifications(
    connection: Executor, user_type: UserType, user_id: int, before_id: int, limit: int
) -> list[Record]:
    return await connection.fetch(SQL["list_unread_notifications"], user_type, user_id, before_id, limit)


async def list_open_notifications(
    connection: Executor, user_type: UserType, user_id: int, before_id: int, limit: int
) -> list[Record]:
    return await connection.fetch(SQL["list_open_notifications"], user_type, user_id, before_id, limit)


async def count_notifications(connection: Executor, user_type: UserType, user_id: int) -> Record:
    (counts,) = await connection.fetch(SQL["count_notifications"], user_type, user_id)
    return counts


async def lock_unread_notifications(
    connection: Connection, user_type: UserType, user_id: int, notification_id: int | None
) -> list[Record]:
    return await connection.fetch(SQL["lock_unread_notifications"], user_type, user_id, notification_id)


async def mark_shared_read(
    connection: Connection, event_notification_ids: Sequence[int], reader_id: int, at: datetime
) -> None:
    await connection.execute(SQL["mark_shared_read"], event_notification_ids, reader_id, at)


async def mark_read(connection: Connection, user_type: UserType, user_id: int, notification_ids: Sequence[int]) -> None:
    await connection.execute(SQL["mark_read"], user_type, user_id, notification_ids)


async def find_preferences(connection: Executor, user_type: UserType, user_id: int) -> Record | None:
    return await connection.fetchrow(SQL["find_preferences"], user_type, user_id)


async def save_preferences(
    connection: Executor,
    user_type: UserType,
    user_id: int,
    *,
    channels: Mapping[str, bool],
    event_types: Mapping[str, Mapping[str, bool]],
    quiet_from: time | None,
    quiet_until: time | None,
) -> bool:
    """Return False if the person does not exist."""
    saved = await connection.fetchval(
        SQL["save_preferences"], user_type, user_id, channels, event_types, quiet_from, quiet_until
    )
    return saved is not None


async def claim_key(
    connection: Connection, owner: tuple[UserType, int], key: str, request_hash: bytes, keep: timedelta
) -> bool:
    """Return False if the key already has a response."""
    return await connection.fetchval(SQL["claim_key"], *owner, key, request_hash, keep) is not None


async def find_key(connection: Connection, owner: tuple[UserType, int], key: str) -> Record | None:
    return await connection.fetchrow(SQL["find_key"], *owner, key)


async def save_response(
    connection: Connection, owner: tuple[UserType, int], key: str, status_code: int, response: Mapping[str, Any]
) -> None:
    await connection.execute(SQL["save_response"], *owner, key, status_code, response)


async def purge_keys(connection: Executor, keep: timedelta, limit: int) -> int:
    return len(await connection.fetch(SQL["purge_keys"], keep, limit))


async def lock_reservations_of_events(connection: Connection, event_ids: Sequence[int]) -> None:
    await connection.execute(SQL["lock_reservations_of_events"], event_ids)


async def find_outdated_events(connection: Connection, event_ids: Sequence[int]) -> list[Record]:
    return await connection.fetch(SQL["find_outdated_events"], event_ids)


async def close_dead_events(connection: Connection, event_ids: Sequence[int], reasons: Sequence[str]) -> None:
    await connection.execute(SQL["close_dead_events"], event_ids, reasons)


async def lock_event_notifications_of_sends(connection: Connection, send_ids: Sequence[int]) -> None:
    await connection.execute(SQL["lock_event_notifications_of_sends"], send_ids)


async def find_outdated_sends(connection: Connection, send_ids: Sequence[int]) -> list[Record]:
    return await connection.fetch(SQL["find_outdated_sends"], send_ids)


async def close_dead_sends(
    connection: Connection, send_ids: Sequence[int], outcomes: Sequence[str], reasons: Sequence[str]
) -> None:
    await connection.execute(SQL["close_dead_sends"], send_ids, outcomes, reasons)


async def append_intervention(
    connection: Connection, *, level: str, act: str, row_ids: Sequence[int], chosen: Mapping[str, Any], admin_id: int
) -> None:
    await connection.execute(SQL["append_intervention"], level, act, row_ids, chosen, admin_id)


async def list_undeliverable_addresses(
    connection: Executor,
    *,
    person: tuple[UserType | None, int | None],
    channel: str | None,
    reason: str | None,
    after_id: int,
    limit: int,
) -> list[Record]:
    return await connection.fetch(SQL["list_undeliverable_addresses"], *person, channel, reason, after_id, limit)


async def clear_undeliverable_addresses(connection: Connection, ids: Sequence[int]) -> list[Record]:
    return await connection.fetch(SQL["clear_undeliverable_addresses"], ids)


async def append_admin_read(connection: Executor, admin_id: int, subject: str, reservation_id: int) -> None:
    await connection.execute(SQL["append_admin_read"], admin_id, subject, reservation_id)


async def trace_reservation(connection: Executor, reservation_id: int) -> Record | None:
    return await connection.fetchrow(SQL["trace_reservation"], reservation_id)


async def trace_events(connection: Executor, reservation_id: int) -> list[Record]:
    return await connection.fetch(SQL["trace_events"], reservation_id)


async def trace_notifications(connection: Executor, reservation_id: int) -> list[Record]:
    return await connection.fetch(SQL["trace_notifications"], reservation_id)


async def trace_channel_sends(connection: Executor, notification_ids: Sequence[int]) -> list[Record]:
    return await connection.fetch(SQL["trace_channel_sends"], notification_ids)


async def trace_actions(connection: Executor, reservation_id: int) -> list[Record]:
    return await connection.fetch(SQL["trace_actions"], reservation_id)
