"""The routes that need no token: restaurants and their free times. Requests are limited per source address."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.availability import Availability, PublicRestaurant, PublicRestaurants
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import public_problems
from reservation_api.routes.parameters import Search
from reservation_api.schemas import PathId
from reservation_api.source_limit import SourceLimit

Day = Annotated[
    date,
    Query(alias="date", description="A day in the restaurant's timezone.", ge=date(2000, 1, 1), le=date(2200, 12, 31)),
]
Guests = Annotated[int, Query(alias="partySize", ge=1, le=1000)]
Step = Annotated[int, Query(ge=5, le=240, description="Minutes between two times, counted from midnight.")]


def public_routes(limit: SourceLimit, restaurants: PublicRestaurants) -> APIRouter:
    router = APIRouter(prefix="/restaurants", tags=["Public"], dependencies=[Depends(limit)])

    @router.get("", summary="List restaurants", responses=public_problems())
    async def list_restaurants(q: Search = None, cursor: Cursor = None, limit: Limit = 20) -> Page[PublicRestaurant]:
        return await restaurants.page(q, cursor, limit)

    @router.get("/{restaurant_id}", summary="Get a restaurant", responses=public_problems(404))
    async def find(restaurant_id: PathId) -> PublicRestaurant:
        return await restaurants.find(restaurant_id)

    @router.get(
        "/{restaurant_id}/availability",
        summary="List the times that a restaurant accepts",
        responses=public_problems(404),
    )
    async def availability(restaurant_id: PathId, day: Day, party_size: Guests, step: Step = 15) -> Availability:
        """The times that `POST /customer/reservation/ask` accepts, by the opening hours and closures. The limits of a
        customer are checked when they ask."""
        return await restaurants.availability(restaurant_id, day, party_size, step)

    return router
