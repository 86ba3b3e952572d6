"""The routes by which admins manage restaurants and agencies."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.management.agencies import Agencies, AgencyChange, AgencyView, NewAgency
from reservation_api.management.members import Member, Members
from reservation_api.management.restaurants import NewRestaurant, RestaurantAdmin, RestaurantChange, RestaurantView
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE, Search
from reservation_api.schemas import PathId


def managed_restaurant_routes(members: Members, restaurants: RestaurantAdmin, agencies: Agencies) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["Management"])
    reader = Annotated[Member, Depends(members.admin_reader())]
    admin = Annotated[Member, Depends(members.admin())]

    @router.get("/restaurants", summary="List restaurants", responses=problems())
    async def list_restaurants(
        _: reader, q: Search = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[RestaurantView]:
        return await restaurants.page(q, cursor, limit)

    @router.post("/restaurants", summary="Create a restaurant", status_code=201, responses=problems(*WRITE))
    async def create_restaurant(member: admin, body: NewRestaurant) -> RestaurantView:
        """`openingHours` may end after midnight. Without them the restaurant is always open."""
        return await restaurants.create(member, body)

    @router.get("/restaurants/{restaurant_id}", summary="Get a restaurant", responses=problems(404))
    async def find_restaurant(_: reader, restaurant_id: PathId) -> RestaurantView:
        return await restaurants.find(restaurant_id)

    @router.patch("/restaurants/{restaurant_id}", summary="Change a restaurant", responses=problems(404, *WRITE))
    async def change_restaurant(member: admin, restaurant_id: PathId, body: RestaurantChange) -> RestaurantView:
        """Existing reservations stay as they are."""
        return await restaurants.change(member, restaurant_id, body)

    @router.get("/agencies", summary="List agencies", responses=problems())
    async def list_agencies(_: reader, q: Search = None, cursor: Cursor = None, limit: Limit = 20) -> Page[AgencyView]:
        return await agencies.page(q, cursor, limit)

    @router.post("/agencies", summary="Create an agency", status_code=201, responses=problems(*WRITE))
    async def create_agency(member: admin, body: NewAgency) -> AgencyView:
        return await agencies.create(member, body)

    @router.get("/agencies/{agency_id}", summary="Get an agency", responses=problems(404))
    async def find_agency(_: reader, agency_id: PathId) -> AgencyView:
        return await agencies.find(agency_id)

    @router.patch("/agencies/{agency_id}", summary="Change an agency", responses=problems(404, *WRITE))
    async def change_agency(member: admin, agency_id: PathId, body: AgencyChange) -> AgencyView:
        return await agencies.change(member, agency_id, body)

    return router
