"""Restaurants: list, create and change, by admins and by the restaurant's managers."""

from datetime import date, datetime
from typing import Annotated, Any

import asyncpg
from asyncpg import Record
from pydantic import ConfigDict, Field, StrictBool, field_validator

from reservation_api.management import store
from reservation_api.management.changes import ChangeAct, Subject, change_record, record
from reservation_api.management.duplicates import duplicate
from reservation_api.management.fields import Address, Email, ExternalId, Locale, Name, Phone, Timezone
from reservation_api.management.members import Member
from reservation_api.management.opening_hours import OpeningHours
from reservation_api.management.patch import Patch
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import not_found
from reservation_api.schemas import Body, PartySize, Text
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.postgres import Connection, Pool

MOST_CLOSURES = 200

EXAMPLE: dict[str, Any] = {
    "name": "Trattoria del Porto",
    "address": "Calata Andalò di Negro 12, 16126 Genova",
    "phone": "+390105550110",
    "timezone": "Europe/Rome",
    "locale": "it",
    "acceptsReservations": True,
    "maxPartySize": 20,
    "openingHours": {"fri": [["12:00", "15:00"], ["19:00", "01:30"]], "sat": [["19:00", "01:30"]]},
    "closures": [{"day": "2027-12-25", "reason": "Natale"}],
    "senderName": "Trattoria del Porto",
    "replyTo": "prenotazioni@porto.example",
    "externalId": "R-10",
}


class Closure(Body):
    """A day on which the restaurant is closed. A range that begins on that day is closed to its end."""

    day: Annotated[date, Field(ge=date(2000, 1, 1), le=date(2200, 12, 31))]
    reason: Text | None = None


def sorted_closures(closures: list[Closure] | None) -> list[Closure] | None:
    if closures is None:
        return None
    if len({closure.day for closure in closures}) < len(closures):
        raise ValueError("a day is listed twice")
    return sorted(closures, key=lambda closure: closure.day)


Closures = Annotated[list[Closure], Field(max_length=MOST_CLOSURES)]


class NewRestaurant(Body):
    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    address: Address | None = None
    phone: Phone | None = None
    timezone: Timezone = "Europe/Rome"
    locale: Locale = "it"
    accepts_reservations: StrictBool = True
    max_party_size: PartySize = 20
    opening_hours: OpeningHours | None = None
    closures: Closures = Field(default_factory=list)
    sender_name: Name | None = None
    """The sender's name of mails about this restaurant."""
    reply_to: Email | None = None
    """Where replies to these mails go."""
    external_id: ExternalId | None = None

    _sorted = field_validator("closures")(sorted_closures)


class OwnRestaurantChange(Patch):
    """Omitted fields stay unchanged. `openingHours` and `closures` are replaced as a whole."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "openingHours": EXAMPLE["openingHours"],
                "closures": [{"day": "2027-12-25", "reason": "Natale"}],
            }
        }
    )
    required = frozenset({"name", "timezone", "locale", "accepts_reservations", "max_party_size", "closures"})

    name: Name | None = None
    address: Address | None = None
    phone: Phone | None = None
    timezone: Timezone | None = None
    locale: Locale | None = None
    accepts_reservations: StrictBool | None = None
    max_party_size: PartySize | None = None
    opening_hours: OpeningHours | None = None
    closures: Closures | None = None
    sender_name: Name | None = None
    reply_to: Email | None = None

    _sorted = field_validator("closures")(sorted_closures)


class RestaurantChange(OwnRestaurantChange):
    external_id: ExternalId | None = None


class ClosureView(CamelModel):
    day: date
    reason: str | None


class RestaurantView(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 10,
                **EXAMPLE,
                "createdAt": "2027-11-01T18:03:20.104211Z",
                "updatedAt": "2027-11-01T18:03:20.104211Z",
            }
        }
    )

    id: int
    external_id: str | None
    name: str
    address: str | None
    phone: str | None
    timezone: str
    locale: str
    accepts_reservations: bool
    max_party_size: int
    opening_hours: dict[str, list[list[str]]] | None
    """null: always open."""
    closures: list[ClosureView]
    """From yesterday on."""
    sender_name: str | None
    reply_to: str | None
    created_at: datetime
    updated_at: datetime


FIELDS = tuple(NewRestaurant.model_fields)


class RestaurantAdmin:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(self, q: str | None, cursor: str | None, limit: int) -> Page[RestaurantView]:
        (after,) = decode(cursor, 1) if cursor else (0,)
        rows = await store.list_restaurants(self._pool, after, q, limit + 1)
        items = [_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)

    async def find(self, restaurant_id: int) -> RestaurantView:
        return _view(_found(await store.find_managed_restaurant(self._pool, restaurant_id)))

    async def create(self, member: Member, restaurant: NewRestaurant) -> RestaurantView:
        fields = restaurant.model_dump(mode="json")

        async def work(connection: Connection) -> RestaurantView:
            restaurant_id = await store.append_restaurant(connection, fields)
            await _append_closures(connection, restaurant_id, restaurant.closures)
            change = change_record(Subject.RESTAURANT, restaurant_id, ChangeAct.CREATE, {}, fields)
            await record(connection, member.key, change)
            return _view(_found(await store.find_managed_restaurant(connection, restaurant_id)))

        return await self._unless_duplicate(work, restaurant.external_id)

    async def change(self, member: Member, restaurant_id: int, change: OwnRestaurantChange) -> RestaurantView:
        given = change.given()

        async def work(connection: Connection) -> RestaurantView:
            row = _found(await store.find_managed_restaurant(connection, restaurant_id))
            before = {field: row[field] for field in FIELDS}
            after = before | given
            if before == after:
                return _view(row)
            if not await store.change_restaurant_if_unchanged(
                connection, {**after, "id": restaurant_id, "updated_at": row["updated_at"]}
            ):
                raise asyncpg.SerializationError("the restaurant was changed at the same time")
            if change.closures is not None:
                await store.delete_closures(connection, restaurant_id)
                await _append_closures(connection, restaurant_id, change.closures)
            changed = change_record(Subject.RESTAURANT, restaurant_id, ChangeAct.CHANGE, before, after)
            await record(connection, member.key, changed)
            return _view(_found(await store.find_managed_restaurant(connection, restaurant_id)))

        return await self._unless_duplicate(work, given.get("external_id"))

    async def _unless_duplicate(self, work: Any, external_id: str | None) -> RestaurantView:
        try:
            restaurant: RestaurantView = await in_transaction(self._pool, work)
        except asyncpg.UniqueViolationError:
            existing = await store.find_restaurant_by_external_id(self._pool, external_id) if external_id else None
            raise duplicate("externalId", "restaurant", existing) from None
        return restaurant


async def _append_closures(connection: Connection, restaurant_id: int, closures: list[Closure]) -> None:
    days, reasons = [closure.day for closure in closures], [closure.reason for closure in closures]
    await store.append_closures(connection, restaurant_id, days, reasons)


def _found(row: Record | None) -> Record:
    if row is None:
        raise not_found("restaurant")
    return row


def _view(row: Record) -> RestaurantView:
    return RestaurantView(
        id=row["id"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        **{field: row[field] for field in FIELDS},
    )
