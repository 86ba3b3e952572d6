"""The routes by which an agency's users manage its customers."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.management.members import Member, Members
from reservation_api.management.people import PeopleAdmin, Scope
from reservation_api.management.person import CustomerChange, NewCustomer, PersonView, view
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE, Active, Search
from reservation_api.schemas import PathId
from tablebell.people import UserType


def agency_routes(members: Members, people: PeopleAdmin) -> APIRouter:
    router = APIRouter(prefix="/agency/customers", tags=["Agencies"])
    agent = Annotated[Member, Depends(members.agency_user())]

    @router.get("", summary="List your agency's customers", responses=problems())
    async def list_customers(
        member: agent, *, q: Search = None, active: Active = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[PersonView]:
        return await people.page(UserType.CUSTOMER, _scope(member), q=q, active=active, cursor=cursor, limit=limit)

    @router.post("", summary="Add a customer to your agency", status_code=201, responses=problems(*WRITE))
    async def create(member: agent, body: NewCustomer) -> PersonView:
        """409 if another customer has the same e-mail address or telephone number. `duplicateOf` names them if they
        are a customer of your agency."""
        return await people.create(member, UserType.CUSTOMER, _scope(member), body.model_dump())

    @router.get("/{user_id}", summary="Get a customer of your agency", responses=problems(404))
    async def find(member: agent, user_id: PathId) -> PersonView:
        return view(await people.find(UserType.CUSTOMER, user_id, _scope(member)))

    @router.patch("/{user_id}", summary="Change a customer of your agency", responses=problems(404, *WRITE))
    async def change(member: agent, user_id: PathId, body: CustomerChange) -> PersonView:
        return view(await people.change(member, UserType.CUSTOMER, user_id, _scope(member), body.given()))

    return router


def _scope(member: Member) -> Scope:
    # Never None for an agency user; 0 is no agency, where None would mean all.
    return Scope(agency_id=member.agency_id or 0)
