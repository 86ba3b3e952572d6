"""Commands on a reservation: staff answer it, cancel it, note who came; customers and agencies change and cancel it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ConfigDict, model_validator

from reservation_api import store
from reservation_api.domain.limits import Limits
from reservation_api.domain.reservation import ALIVE, ATTENDED, DECISIONS, RULES, Act
from reservation_api.domain.restaurant import NotBookable
from reservation_api.metrics import RESERVATIONS
from reservation_api.people import find_person
from reservation_api.problem import Problem, not_found
from reservation_api.reservations import DecisionView, ReservationView, view
from reservation_api.restaurants import Restaurants
from reservation_api.schemas import Body, Moment, PartySize, Reason, Text
from reservation_api.transaction import in_transaction
from reservation_api.transition import LockedReservation
from tablebell.outbox import Level
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity
from tablebell.wakeups import WakeupSender


class Postpone(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"proposedTime": "2027-11-14T21:30:00"}})

    proposed_time: Moment


class Cancellation(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"reason": "A pipe has burst in the kitchen."}})

    reason: Reason


class Change(Body):
    """Omitted fields stay unchanged. A `note` of null deletes the note."""

    model_config = ConfigDict(json_schema_extra={"example": {"partySize": 6, "slotTime": "2027-11-14T20:30:00"}})

    party_size: PartySize | None = None
    slot_time: Moment | None = None
    note: Text | None = None

    @model_validator(mode="after")
    def is_not_empty(self) -> "Change":
        if not self.model_fields_set:
            raise ValueError("at least one of partySize, slotTime and note is required")
        for field, name in (("party_size", "partySize"), ("slot_time", "slotTime")):
            if field in self.model_fields_set and getattr(self, field) is None:
                raise ValueError(f"{name} cannot be null")
        return self


class ReservationCommands:
    def __init__(
        self,
        pool: Pool,
        restaurants: Restaurants,
        wakeup_sender: WakeupSender,
        *,
        horizon: timedelta,
        limits: Limits,
        undo: timedelta,
    ) -> None:
        self._pool = pool
        self._undo = undo
        self._limits = limits
        self._restaurants = restaurants
        self._wakeup_sender = wakeup_sender
        self._horizon = horizon

    async def decide(
        self,
        identity: Identity,
        reservation_id: int,
        act: Act,
        proposed_time: datetime | None = None,
        reason: str | None = None,
    ) -> DecisionView:
        """An act of the restaurant's staff. UNDO undoes the last act of staff, whichever it was."""
        done = act

        async def work(connection: Connection) -> ReservationView:
            nonlocal done
            staff = await find_person(connection, identity)
            locked = await self.lock(connection, reservation_id)
            if locked.row["restaurant_id"] != staff.restaurant_id:
                raise not_found("reservation")
            desired = await self.proposal(locked, proposed_time)
            done = Act.UNDO_DECISION if act is Act.UNDO and locked.reservation.status not in ATTENDED else act
            return await locked.act(done, staff, reason=reason, undo=self.undo_window(act), **desired)

        answer = await in_transaction(self._pool, work)
        self.on_committed(done)
        return DecisionView.model_construct(**dict(answer), undo_seconds=self.undo_seconds(act))

    async def change(self, identity: Identity, reservation_id: int, change: Change) -> ReservationView:
        is_changed = True

        async def work(connection: Connection) -> ReservationView:
            nonlocal is_changed
            locked = await self._lock_own(connection, identity, reservation_id)
            desired = await self._desired(locked, change)
            same = all(getattr(locked.reservation, field) == value for field, value in desired.items())
            is_changed = not (same and locked.reservation.status in ALIVE)
            if not is_changed:
                return view(locked.row)
            return await locked.act(Act.CHANGE, await find_person(connection, identity), **desired)

        answer = await in_transaction(self._pool, work)
        if is_changed:
            self.on_committed(Act.CHANGE)
        return answer

    async def cancel(self, identity: Identity, reservation_id: int) -> ReservationView:
        async def work(connection: Connection) -> ReservationView:
            locked = await self._lock_own(connection, identity, reservation_id)
            return await locked.act(Act.CANCEL, await find_person(connection, identity))

        answer = await in_transaction(self._pool, work)
        self.on_committed(Act.CANCEL)
        return answer

    async def lock(self, connection: Connection, reservation_id: int) -> LockedReservation:
        return await LockedReservation.acquire(connection, reservation_id, self._limits)

    def undo_window(self, act: Act) -> timedelta:
        """How long staff can undo this act, if it is a decision of theirs."""
        return self._undo if act in DECISIONS else timedelta(0)

    def undo_seconds(self, act: Act | None) -> float | None:
        return self.undo_window(act).total_seconds() or None if act else None

    async def proposal(self, locked: LockedReservation, proposed_time: datetime | None) -> dict[str, Any]:
        """The fields that a proposal sets. Raises a Problem if the restaurant is closed at that time."""
        if proposed_time is None:
            return {}
        return {"proposed_time": await self._check_time(locked, "proposedTime", proposed_time)}

    def on_committed(self, act: Act) -> None:
        """Call after the commit: sends the wake-up and counts the act."""
        self._wakeup_sender.announce(Level.EVENT)
        RESERVATIONS.labels(RULES[act].event_type).inc()

    async def _lock_own(self, connection: Connection, identity: Identity, reservation_id: int) -> LockedReservation:
        locked = await self.lock(connection, reservation_id)
        if identity.user_type is UserType.CUSTOMER:
            is_own = locked.row["customer_id"] == identity.user_id
        else:
            person = identity.user_type, identity.user_id
            is_own = await store.find_reservation_of_guest(connection, reservation_id, *person) is not None
        if not is_own:
            raise not_found("reservation")
        return locked

    async def _desired(self, locked: LockedReservation, change: Change) -> dict[str, Any]:
        desired: dict[str, Any] = change.model_dump(exclude_unset=True)
        if change.slot_time is not None:
            desired["slot_time"] = await self._check_time(locked, "slotTime", change.slot_time)
        elif locked.reservation.slot_time <= datetime.now(UTC):
            raise Problem.of_field("slotTime", "The time of the reservation is in the past.")
        if change.party_size is not None:
            restaurant = await self._restaurants.find(locked.connection, locked.row["restaurant_id"])
            if restaurant is not None and change.party_size > restaurant.max_party_size:
                raise Problem.of_field(
                    "partySize", f"{restaurant.name} seats parties of up to {restaurant.max_party_size}."
                )
        return desired

    async def _check_time(self, locked: LockedReservation, field: str, written: datetime) -> datetime:
        restaurant = await self._restaurants.find(locked.connection, locked.row["restaurant_id"])
        if restaurant is None:
            raise not_found("restaurant")
        try:
            return restaurant.check(field, written, datetime.now(UTC), self._horizon)
        except NotBookable as error:
            raise Problem.of_field(error.field, error.reason) from None
