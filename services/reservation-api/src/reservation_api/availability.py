"""What anyone may read of a restaurant, and the times that it accepts reservations for."""

from datetime import UTC, date, datetime, timedelta

from pydantic import ConfigDict

from reservation_api.management import store
from reservation_api.management.restaurants import ClosureView
from reservation_api.paging import Page, decode, encode
from reservation_api.problem import not_found
from reservation_api.restaurants import Restaurants
from tablebell.events import CamelModel
from tablebell.postgres import Pool


class PublicRestaurant(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "id": 10,
                "name": "Trattoria del Porto",
                "address": "Calata Andalò di Negro 12, 16126 Genova",
                "phone": "+390105550110",
                "timezone": "Europe/Rome",
                "locale": "it",
                "acceptsReservations": True,
                "maxPartySize": 20,
                "openingHours": {"fri": [["12:00", "15:00"], ["19:00", "01:30"]]},
                "closures": [{"day": "2027-12-25", "reason": "Natale"}],
            }
        }
    )

    id: int
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


class Availability(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "restaurantId": 10,
                "date": "2027-11-14",
                "partySize": 4,
                "timezone": "Europe/Rome",
                "times": ["2027-11-14T12:00:00+01:00", "2027-11-14T12:15:00+01:00"],
                "reason": None,
            }
        }
    )

    restaurant_id: int
    date: date
    party_size: int
    timezone: str
    times: list[datetime]
    """In the restaurant's timezone. Times after midnight belong to the next date."""
    reason: str | None
    """Why there are no times."""


class PublicRestaurants:
    def __init__(self, pool: Pool, restaurants: Restaurants, horizon: timedelta) -> None:
        self._pool = pool
        self._restaurants = restaurants
        self._horizon = horizon

    async def page(self, q: str | None, cursor: str | None, limit: int) -> Page[PublicRestaurant]:
        (after,) = decode(cursor, 1) if cursor else (0,)
        rows = await store.list_restaurants(self._pool, after, q, limit + 1)
        items = [_view(row) for row in rows[:limit]]
        return Page(items=items, next_cursor=encode(items[-1].id) if len(rows) > limit else None)

    async def find(self, restaurant_id: int) -> PublicRestaurant:
        row = await store.find_managed_restaurant(self._pool, restaurant_id)
        if row is None:
            raise not_found("restaurant")
        return _view(row)

    async def availability(self, restaurant_id: int, day: date, party_size: int, step: int) -> Availability:
        restaurant = await self._restaurants.find(self._pool, restaurant_id)
        if restaurant is None:
            raise not_found("restaurant")
        times, reason = restaurant.available_times(
            day, party_size, timedelta(minutes=step), datetime.now(UTC), self._horizon
        )
        return Availability(
            restaurant_id=restaurant_id,
            date=day,
            party_size=party_size,
            timezone=restaurant.timezone.key,
            times=times,
            reason=reason,
        )


def _view(row: store.Row) -> PublicRestaurant:
    return PublicRestaurant(**{field: row[field] for field in PublicRestaurant.model_fields})
