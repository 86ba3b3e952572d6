"""Restaurants by id, remembered for a few seconds: every reservation asks for one, and they hardly change."""

import time
from datetime import date
from zoneinfo import ZoneInfo

from reservation_api import store
from reservation_api.domain.restaurant import Restaurant
from tablebell.postgres import Executor

REMEMBERED = 10_000


class Restaurants:
    def __init__(self, fresh_seconds: float) -> None:
        self._fresh_seconds = fresh_seconds
        self._known: dict[int, tuple[float, Restaurant]] = {}

    async def find(self, connection: Executor, restaurant_id: int) -> Restaurant | None:
        now = time.monotonic()
        known = self._known.get(restaurant_id)
        if known is not None and now - known[0] < self._fresh_seconds:
            return known[1]
        row = await store.find_restaurant(connection, restaurant_id)
        if row is None:
            return None
        restaurant = _restaurant(row)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[restaurant_id] = (now, restaurant)
        return restaurant


def _restaurant(row: store.Row) -> Restaurant:
    return Restaurant(
        id=row["id"],
        name=row["name"],
        timezone=ZoneInfo(row["timezone"]),
        accepts_reservations=row["accepts_reservations"],
        max_party_size=row["max_party_size"],
        opening_hours=row["opening_hours"],
        closures={date.fromisoformat(day): reason for day, reason in row["closures"].items()},
    )
