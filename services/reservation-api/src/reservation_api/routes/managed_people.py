"""The routes by which admins manage people, and read who changed what."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.management.changes import Changes, ChangeView, Subject
from reservation_api.management.members import Member, Members
from reservation_api.management.people import EVERYONE, PeopleAdmin, Scope
from reservation_api.management.person import NewPerson, PersonChange, PersonView, view
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE, Active, QueryId, Search
from reservation_api.schemas import PathId
from tablebell.people import UserType


def managed_people_routes(members: Members, people: PeopleAdmin, changes: Changes) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["Management"])
    reader = Annotated[Member, Depends(members.admin_reader())]
    admin = Annotated[Member, Depends(members.admin())]

    @router.get("/people/{user_type}", summary="List people", responses=problems())
    async def list_people(
        _: reader,
        user_type: UserType,
        *,
        q: Search = None,
        restaurant_id: Annotated[QueryId, Query(alias="restaurantId")] = None,
        agency_id: Annotated[QueryId, Query(alias="agencyId")] = None,
        active: Active = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[PersonView]:
        scope = Scope(restaurant_id=restaurant_id, agency_id=agency_id)
        return await people.page(user_type, scope, q=q, active=active, cursor=cursor, limit=limit)

    @router.post("/people/{user_type}", summary="Create a person", status_code=201, responses=problems(*WRITE))
    async def create_person(member: admin, user_type: UserType, body: NewPerson) -> PersonView:
        """409 if a person of this type has the same e-mail address, telephone number or external id (`duplicateOf`)."""
        return await people.create(member, user_type, EVERYONE, body.model_dump())

    @router.get("/people/{user_type}/{user_id}", summary="Get a person", responses=problems(404))
    async def find_person(_: reader, user_type: UserType, user_id: PathId) -> PersonView:
        return view(await people.find(user_type, user_id, EVERYONE))

    @router.patch("/people/{user_type}/{user_id}", summary="Change a person", responses=problems(404, *WRITE))
    async def change_person(member: admin, user_type: UserType, user_id: PathId, body: PersonChange) -> PersonView:
        return view(await people.change(member, user_type, user_id, EVERYONE, body.given()))

    @router.post(
        "/people/{user_type}/{user_id}/deactivate", summary="Deactivate a person", responses=problems(404, *WRITE)
    )
    async def deactivate(member: admin, user_type: UserType, user_id: PathId) -> PersonView:
        """The person cannot sign in and is not notified. Their unsent messages are withdrawn; their history stays."""
        return view(await people.change(member, user_type, user_id, EVERYONE, {"active": False}))

    @router.post(
        "/people/{user_type}/{user_id}/reactivate", summary="Reactivate a person", responses=problems(404, *WRITE)
    )
    async def reactivate(member: admin, user_type: UserType, user_id: PathId) -> PersonView:
        return view(await people.change(member, user_type, user_id, EVERYONE, {"active": True}))

    @router.post(
        "/people/{user_type}/{user_id}/sign-out",
        summary="Sign a person out everywhere",
        status_code=204,
        responses=problems(404),
    )
    async def sign_out(member: admin, user_type: UserType, user_id: PathId) -> None:
        """For a lost telephone or a stolen token: all tokens that the person has now end within 5 seconds."""
        await people.sign_out(member, user_type, user_id)

    @router.get("/changes", summary="List changes, the newest first", responses=problems())
    async def list_changes(
        _: reader,
        *,
        subject_type: Annotated[Subject | None, Query(alias="subjectType")] = None,
        subject_id: Annotated[QueryId, Query(alias="subjectId")] = None,
        actor_type: Annotated[UserType | None, Query(alias="actorType")] = None,
        actor_id: Annotated[QueryId, Query(alias="actorId")] = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[ChangeView]:
        """Who changed a restaurant, an agency or a person, and when, with the changed fields before and after."""
        return await changes.page((subject_type, subject_id), (actor_type, actor_id), cursor, limit)

    return router
