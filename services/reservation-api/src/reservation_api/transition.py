"""The only code that changes a reservation after it has been created.

One transaction, under the reservation's row lock, writes the new version, the action, the event and the reminders, and
withdraws pending sends about the old version. Locks are always taken in this order: the reservation, the customer's
limits, the shared notifications, their channel sends.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg

from reservation_api import store
from reservation_api.create_reservation import double_booking
from reservation_api.domain.limits import Limits
from reservation_api.domain.reservation import (
    DECIDED,
    RULES,
    Act,
    Illegal,
    Reservation,
    Status,
    WrongTime,
    perform,
)
from reservation_api.domain.schedule import plan
from reservation_api.event_factory import reservation_event
from reservation_api.limit_problem import limit_problem
from reservation_api.metrics import DECISIONS_LOST
from reservation_api.people import Person
from reservation_api.problem import HandledBy, Problem, ProblemType, not_found
from reservation_api.reservations import ReservationView, view
from tablebell.events import EventType
from tablebell.inbox import Outcome
from tablebell.outbox import withdraw_channel_sends
from tablebell.people import UserType
from tablebell.postgres import Connection


class LockedReservation:
    """A reservation whose row lock this transaction holds."""

    def __init__(self, connection: Connection, row: store.Row, limits: Limits) -> None:
        self.connection = connection
        self._limits = limits
        self.row = row
        self.id: int = row["id"]
        self.reservation = Reservation(
            status=Status(row["status"]),
            version=row["version"],
            slot_time=row["slot_time"],
            party_size=row["party_size"],
            note=row["note"],
            proposed_time=row["proposed_time"],
        )

    @classmethod
    async def acquire(cls, connection: Connection, reservation_id: int, limits: Limits) -> "LockedReservation":
        row = await store.lock_reservation(connection, reservation_id)
        if row is None:
            raise not_found("reservation")
        return cls(connection, row, limits)

    async def act(
        self,
        act: Act,
        person: Person,
        *,
        via: tuple[int, int] | None = None,
        reason: str | None = None,
        undo: timedelta = timedelta(0),
        **desired: Any,
    ) -> ReservationView:
        """`via`: the ids of the event notification and the notification; `reason`: why the restaurant cancels; `undo`:
        how long this decision can be undone; `desired`: the fields that the act sets."""
        rule = RULES[act]
        try:
            after = perform(act, replace(self.reservation, **desired), person.user_type, datetime.now(UTC))
        except Illegal as illegal:
            raise await self._refusal(illegal) from None
        await self._settle_decision(act, person)
        await self._check_limits(act, person, after)
        shared = await store.lock_shared_notifications(self.connection, self.id, self.reservation.version, *person.key)
        if via is None and shared:
            via = (shared[0]["id"], shared[0]["notification_id"])
        at = await self._write(after, act)
        outcome = Outcome(
            event_type=rule.event_type,
            slot_time=after.slot_time,
            proposed_time=after.proposed_time,
            party_size=after.party_size,
            reason=reason,
        )
        await store.append_action(
            self.connection,
            event_notification_id=via[0] if via else None,
            notification_id=via[1] if via else None,
            reservation_id=self.id,
            version=self.reservation.version,
            resulting_version=after.version,
            actor=person.key,
            action=rule.action,
            outcome=outcome.model_dump(mode="json", by_alias=True),
            decides=True,
        )
        if shared:
            await withdraw_shared(self.connection, shared, f"handled by {person.name} ({rule.action})")
        # Also if it becomes ACCEPTED: an operator may have requeued a dead reminder of an earlier version.
        if Status.ACCEPTED in (self.reservation.status, after.status):
            await store.withdraw_planned_events(self.connection, self.id, f"the reservation is {after.status} now")
        event = reservation_event(
            self.row, after, at, rule.event_type, actor=person.actor, action=rule.action, reason=reason
        )
        final = at + undo
        events = [event | {"available_at": final}, *self._planned(after, at, final)]
        if undo:
            # For the screens of the colleagues. The others are told when the decision can no longer be undone.
            events.insert(0, event | {"event_type": EventType.RESERVATION_DECIDED})
        await self._append(events)
        changed = {field: getattr(after, field) for field in ("status", "version", "slot_time", "party_size", "note")}
        return view({**dict(self.row), **changed, "proposed_time": after.proposed_time, "updated_at": at})

    async def _settle_decision(self, act: Act, person: Person) -> None:
        """Withdraw the event of a decision that is undone. Any other act makes it due: the guest is told of both.

        Raises a Problem if it is too late to undo the decision.
        """
        if self.reservation.status not in DECIDED:
            return
        version = self.reservation.version
        if act is not Act.UNDO_DECISION:
            await store.publish_decision_if_planned(self.connection, self.id, version)
            return
        if await store.withdraw_decision_if_planned(self.connection, self.id, version, f"undone by {person.name}"):
            return
        action = await store.find_resulting_action(self.connection, self.id, version)
        if action is not None and action["actor_type"] != UserType.RESTAURANT_USER:
            raise already_handled(action)
        raise Problem(ProblemType.NOT_POSSIBLE_NOW, "It is too late to undo this decision. The guest is being told.")

    async def _check_limits(self, act: Act, person: Person, after: Reservation) -> None:
        if act not in {Act.CHANGE, Act.CONFIRM_PROPOSAL}:
            return
        limits = self._limits if act is Act.CHANGE else self._limits.of_confirmation()
        new_time = after.slot_time if after.slot_time != self.row["slot_time"] else None
        reached = await store.find_reached_limit(self.connection, self.row, person.key, new_time, limits)
        if reached is not None:
            raise limit_problem(reached, limits, _field_of_time(act))

    async def _write(self, after: Reservation, act: Act) -> datetime:
        try:
            return await store.change_reservation(self.connection, self.id, after)
        except asyncpg.UniqueViolationError:
            if act is Act.UNDO_DECISION:
                detail = "The guest has another reservation at that time now. The decision cannot be undone."
                raise Problem(ProblemType.NOT_POSSIBLE_NOW, detail) from None
            raise double_booking(_field_of_time(act)) from None

    async def _append(self, events: list[dict[str, Any]]) -> None:
        try:
            await store.append_events(self.connection, events)
        except asyncpg.UniqueViolationError as error:
            # An operator requeued a dead reminder after the withdrawal. The retry withdraws it too.
            raise asyncpg.SerializationError("a reminder was requeued at the same time") from error

    def _planned(self, after: Reservation, at: datetime, final: datetime) -> list[dict[str, Any]]:
        """Reminders and thanks for an accepted table; only thanks for guests who have arrived.

        None is due before `final`, when the guest is told of the acceptance.
        """
        if after.status not in {Status.ACCEPTED, Status.ARRIVED}:
            return []
        planned = plan(after.slot_time, ZoneInfo(self.row["timezone"]), final)
        if after.status is Status.ARRIVED:
            planned = [event for event in planned if event.event_type is EventType.RESERVATION_VISIT_ENDED]
        return [reservation_event(self.row, after, at, event.event_type, planned=event) for event in planned]

    async def _refusal(self, illegal: Illegal) -> Problem:
        """The 409; names the person whose action led to the current state, if there is one."""
        if isinstance(illegal, WrongTime):
            return Problem(ProblemType.NOT_POSSIBLE_NOW, str(illegal))
        action = await store.find_resulting_action(self.connection, self.id, self.reservation.version)
        return already_handled(action) if action else Problem(ProblemType.NOT_POSSIBLE_NOW, str(illegal))


def _field_of_time(act: Act) -> str:
    return "slotTime" if act is Act.CHANGE else "actionType"


async def withdraw_shared(connection: Connection, shared: Sequence[store.Row], reason: str) -> None:
    """Withdraw the unsent channel sends of notifications that `lock_shared_notifications` returned."""
    ids = [row["id"] for row in shared]
    await withdraw_channel_sends(connection, ids, [reason] * len(ids), UserType.RESTAURANT_USER)


def already_handled(action: store.Row) -> Problem:
    DECISIONS_LOST.inc()
    handled = HandledBy(
        action=action["action_type"],
        actor_type=action["actor_type"],
        actor_id=action["actor_id"],
        actor_name=action["actor_name"] or "",
        at=action["created_at"],
    )
    detail = f"{handled.actor_name} acted first ({handled.action}, {handled.at:%Y-%m-%d %H:%M:%S} UTC)."
    return Problem(ProblemType.ALREADY_HANDLED, detail, handled_by=handled)
