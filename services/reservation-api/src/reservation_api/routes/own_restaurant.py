"""The routes by which a restaurant's staff read their restaurant and colleagues, and managers change them."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.management.members import Member, Members
from reservation_api.management.people import PeopleAdmin, Scope
from reservation_api.management.person import NewStaff, PersonView, StaffChange, view
from reservation_api.management.restaurants import OwnRestaurantChange, RestaurantAdmin, RestaurantView
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE, Active, Search
from reservation_api.schemas import PathId
from tablebell.people import UserType


def own_restaurant_routes(members: Members, restaurants: RestaurantAdmin, people: PeopleAdmin) -> APIRouter:
    router = APIRouter(prefix="/restaurant", tags=["Restaurants"])
    staff = Annotated[Member, Depends(members.staff())]
    manager = Annotated[Member, Depends(members.manager())]

    @router.get("", summary="Get your restaurant", responses=problems(404))
    async def find(member: staff) -> RestaurantView:
        return await restaurants.find(member.restaurant_id or 0)

    @router.patch("", summary="Change your restaurant", responses=problems(404, *WRITE))
    async def change(member: manager, body: OwnRestaurantChange) -> RestaurantView:
        """Only managers. Existing reservations stay as they are."""
        return await restaurants.change(member, member.restaurant_id or 0, body)

    @router.get("/staff", summary="List your restaurant's staff", responses=problems())
    async def list_staff(
        member: staff, *, q: Search = None, active: Active = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[PersonView]:
        return await people.page(
            UserType.RESTAURANT_USER, _scope(member), q=q, active=active, cursor=cursor, limit=limit
        )

    @router.post("/staff", summary="Add a member of staff", status_code=201, responses=problems(*WRITE))
    async def create(member: manager, body: NewStaff) -> PersonView:
        """Only managers. 409 if another one has the same e-mail address or telephone number (`duplicateOf`)."""
        return await people.create(member, UserType.RESTAURANT_USER, _scope(member), body.model_dump())

    @router.patch("/staff/{user_id}", summary="Change a member of staff", responses=problems(404, *WRITE))
    async def change_staff(member: manager, user_id: PathId, body: StaffChange) -> PersonView:
        """Only managers. The last active manager keeps the role, and nobody deactivates themselves."""
        changed = await people.change(member, UserType.RESTAURANT_USER, user_id, _scope(member), body.given())
        return view(changed)

    return router


def _scope(member: Member) -> Scope:
    # Never None for a member of staff; 0 is no restaurant, where None would mean all.
    return Scope(restaurant_id=member.restaurant_id or 0)
