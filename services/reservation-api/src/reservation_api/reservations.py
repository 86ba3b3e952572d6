"""The representation of a reservation in responses, and the lists of reservations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import ConfigDict

from reservation_api import store
from reservation_api.domain.reservation import Status
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import not_found
from reservation_api.schemas import LARGEST_ID
from tablebell.events import CamelModel
from tablebell.postgres import Pool
from tablebell.tokens import Identity

DIGITS = frozenset("0123456789")
LEAST_DIGITS = 3
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
# The year 2286 in microseconds: later than any reservation, and safe for datetime arithmetic.
MAX_MICROS = 10**16


class ReservationView(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 1204,
                "customerId": 5,
                "customerName": "Anna Bianchi",
                "restaurantId": 10,
                "restaurantName": "Trattoria del Porto",
                "agencyId": 7,
                "partySize": 4,
                "slotTime": "2027-11-14T20:00:00+01:00",
                "proposedTime": None,
                "timezone": "Europe/Rome",
                "status": "NOT_ACCEPTED",
                "note": None,
                "version": 1,
                "createdAt": "2027-11-01T18:03:20.104211Z",
                "updatedAt": "2027-11-01T18:03:20.104211Z",
            }
        }
    )

    id: int
    customer_id: int
    customer_name: str
    restaurant_id: int
    restaurant_name: str
    agency_id: int | None
    party_size: int
    slot_time: datetime
    """In the restaurant's timezone, with its offset."""
    proposed_time: datetime | None
    timezone: str
    status: Status
    note: str | None
    version: int
    created_at: datetime
    updated_at: datetime


class DecisionView(ReservationView):
    undo_seconds: float | None = None
    """How long staff can undo the decision; null if they cannot. The guest is told afterwards."""


def view(row: store.Row) -> ReservationView:
    """From the columns of `reservation`, with customer_name, restaurant_name and timezone."""
    zone = ZoneInfo(row["timezone"])
    proposed = row["proposed_time"]
    # No validation: the values come from the database.
    return ReservationView.model_construct(
        id=row["id"],
        customer_id=row["customer_id"],
        customer_name=row["customer_name"],
        restaurant_id=row["restaurant_id"],
        restaurant_name=row["restaurant_name"],
        agency_id=row["agency_id"],
        party_size=row["party_size"],
        slot_time=row["slot_time"].astimezone(zone),
        proposed_time=proposed.astimezone(zone) if proposed else None,
        timezone=row["timezone"],
        status=Status(row["status"]),
        note=row["note"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


class StaffReservationView(ReservationView):
    """A reservation as the staff of its restaurant see it."""

    customer_phone: str | None
    visits: int
    """How often the guest came to this restaurant before."""
    no_shows: int
    """How often the guest did not come."""


def staff_view(row: store.Row) -> StaffReservationView:
    more = {name: row[name] for name in ("customer_phone", "visits", "no_shows")}
    return StaffReservationView.model_construct(**dict(view(row)), **more)


@dataclass(frozen=True, slots=True)
class StaffFilter:
    status: Status | None
    day: date | None
    text: str | None
    """A part of the guest's name, or digits of the phone number."""


class Reservations:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, identity: Identity, reservation_id: int) -> ReservationView:
        row = await store.find_reservation_of_guest(self._pool, reservation_id, identity.user_type, identity.user_id)
        if row is None:
            raise not_found("reservation")
        return view(row)

    async def of_customer(
        self, customer_id: int, status: Status | None, cursor: str | None, limit: int
    ) -> Page[ReservationView]:
        (before,) = decode(cursor, 1) if cursor else (LARGEST_ID,)
        rows = await store.list_reservations_of_customer(self._pool, customer_id, status, before, limit + 1)
        return _page(rows, limit)

    async def of_agency(
        self, agent_id: int, customer_id: int | None, status: Status | None, cursor: str | None, limit: int
    ) -> Page[ReservationView]:
        (before,) = decode(cursor, 1) if cursor else (LARGEST_ID,)
        rows = await store.list_reservations_of_agency(
            self._pool, agent_id, customer_id=customer_id, status=status, before_id=before, limit=limit + 1
        )
        return _page(rows, limit)

    async def of_staff(
        self, staff_id: int, chosen: StaffFilter, cursor: str | None, limit: int
    ) -> Page[StaffReservationView]:
        digits = "".join(character for character in chosen.text or "" if character in DIGITS)
        after = (EPOCH, 0)
        if cursor:
            micros, last_id = decode(cursor, 2)
            after = (EPOCH + max(0, min(micros, MAX_MICROS)) * MICROSECOND, last_id)
        rows = await store.list_reservations_of_staff(
            self._pool,
            staff_id,
            status=chosen.status,
            day=chosen.day,
            name=chosen.text,
            phone=digits if len(digits) >= LEAST_DIGITS else None,
            after=after,
            limit=limit + 1,
        )
        page = [staff_view(row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items=page, next_cursor=encode(_micros(page[-1].slot_time), page[-1].id) if more else None)


def _page(rows: Sequence[store.Row], limit: int) -> Page[ReservationView]:
    page = [view(row) for row in rows[:limit]]
    return Page(items=page, next_cursor=encode(page[-1].id) if len(rows) > limit else None)


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND
