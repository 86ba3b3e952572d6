"""Creates a reservation and its event in one statement."""

from datetime import UTC, datetime, timedelta

import asyncpg
from pydantic import ConfigDict

from reservation_api import store
from reservation_api.domain.limits import Limits
from reservation_api.domain.restaurant import NotBookable
from reservation_api.event_factory import requested_event
from reservation_api.idempotency import Idempotency
from reservation_api.limit_problem import limit_problem
from reservation_api.metrics import RESERVATIONS
from reservation_api.problem import FieldError, Problem, ProblemType
from reservation_api.reservations import ReservationView, view
from reservation_api.restaurants import Restaurants
from reservation_api.schemas import Body, Id, Moment, PartySize, Text
from tablebell.events import EventType
from tablebell.outbox import Level
from tablebell.people import UserType
from tablebell.postgres import Connection, Executor, Pool
from tablebell.tokens import Identity
from tablebell.wakeups import WakeupSender


class Ask(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": "2027-11-14T20:00:00"}
        }
    )

    customer_id: Id
    restaurant_id: Id
    party_size: PartySize
    slot_time: Moment
    note: Text | None = None


class CreateReservation:
    def __init__(
        self,
        pool: Pool,
        restaurants: Restaurants,
        idempotency: Idempotency,
        wakeup_sender: WakeupSender,
        *,
        horizon: timedelta,
        limits: Limits,
    ) -> None:
        self._pool = pool
        self._restaurants = restaurants
        self._idempotency = idempotency
        self._wakeup_sender = wakeup_sender
        self._horizon = horizon
        self._limits = limits

    async def ask(self, identity: Identity, request: Ask, key: str | None) -> ReservationView:
        if key is None:
            answer, is_new = await self._reserve(self._pool, identity, request), True
        else:

            async def work(connection: Connection) -> ReservationView:
                return await self._reserve(connection, identity, request)

            answer, is_new = await self._idempotency.once(identity, key, request, ReservationView, work)
        if is_new:
            self._wakeup_sender.announce(Level.EVENT)
            RESERVATIONS.labels(EventType.RESERVATION_REQUESTED).inc()
        return answer

    async def _reserve(self, connection: Executor, identity: Identity, request: Ask) -> ReservationView:
        if identity.user_type is UserType.CUSTOMER and request.customer_id != identity.user_id:
            raise _customer_not_found()
        restaurant = await self._restaurants.find(connection, request.restaurant_id)
        if restaurant is None:
            raise Problem.of_field("restaurantId", "The restaurant does not exist.")
        try:
            restaurant.check_party(request.party_size)
            slot_time = restaurant.check("slotTime", request.slot_time, datetime.now(UTC), self._horizon)
        except NotBookable as error:
            raise Problem.of_field(error.field, error.reason) from None
        event = requested_event(
            identity,
            restaurant,
            customer_id=request.customer_id,
            party_size=request.party_size,
            slot_time=slot_time,
            note=request.note,
        )
        try:
            row = await store.ask_reservation(
                connection,
                asker=(identity.user_type, identity.user_id),
                customer_id=request.customer_id,
                restaurant_id=restaurant.id,
                party_size=request.party_size,
                slot_time=slot_time,
                note=request.note,
                event=event,
                limits=self._limits,
            )
        except asyncpg.UniqueViolationError:
            raise double_booking("slotTime") from None
        if row is None:
            raise _customer_not_found()
        if row["reached"] is not None:
            raise limit_problem(row, self._limits, "slotTime")
        requested = {
            "customer_id": request.customer_id,
            "restaurant_id": restaurant.id,
            "restaurant_name": restaurant.name,
            "timezone": restaurant.timezone.key,
            "party_size": request.party_size,
            "slot_time": slot_time,
            "proposed_time": None,
            "note": request.note,
        }
        return view({**requested, **dict(row)})


def double_booking(field: str) -> Problem:
    message = "The customer has another reservation at that time."
    return Problem(ProblemType.DOUBLE_BOOKING, errors=[FieldError(field=field, message=message)])


def _customer_not_found() -> Problem:
    message = "The customer does not exist, or you may not reserve for them."
    return Problem(ProblemType.NOT_FOUND, message, errors=[FieldError(field="customerId", message=message)])
