"""Restaurants by id, cached for a few seconds: every request needs one, and they rarely change."""

import time
from datetime import date
from zoneinfo import ZoneInfo

from reservation_api import store
from reservation_api.domain.restaurant import Restaurant
from tablebell.postgres import Executor

MAX_CACHED = 10_000


class Restaurants:
    def __init__(self, cache_seconds: float) -> None:
        self._cache_seconds = cache_seconds
        self._cache: dict[int, tuple[float, Restaurant]] = {}

    async def find(self, connection: Executor, restaurant_id: int) -> Restaurant | None:
        now = time.monotonic()
        cached = self._cache.get(restaurant_id)
        if cached is not None and now - cached[0] < self._cache_seconds:
            return cached[1]
        row = await store.find_restaurant(connection, restaurant_id)
        if row is None:
            return None
        restaurant = _restaurant(row)
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        self._cache[restaurant_id] = (now, restaurant)
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
