"""The route by which admins import people."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from reservation_api.management.members import Member, Members
from reservation_api.management.people_import import ImportResult, PeopleImport, refusal
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE

DryRun = Annotated[bool, Query(alias="dryRun", description="Check the file and change nothing.")]

EXAMPLE = """userType,externalId,name,email,phone,locale,role,restaurantId,agencyId
restaurant_user,S-1,Giulia Ferri,giulia.ferri@porto.example,+39 333 0000050,it,manager,10,
customer,C-1,Anna Bianchi,anna.bianchi@mail.example,+39 333 0000005,it,,,7
"""
BODY = {"required": True, "content": {"text/csv": {"schema": {"type": "string"}, "example": EXAMPLE}}}


def import_routes(members: Members, people_import: PeopleImport) -> APIRouter:
    router = APIRouter(prefix="/admin/import", tags=["Management"])
    admin = Annotated[Member, Depends(members.admin())]

    @router.post("", summary="Import people", responses=problems(*WRITE), openapi_extra={"requestBody": BODY})
    async def import_people(member: admin, request: Request, *, dry_run: DryRun = False) -> ImportResult:
        """A CSV file in UTF-8 with a header. Required columns: `userType` and `name`; a person is found again by
        `externalId`, or else by `email`, and then changed. An empty cell leaves a field as it is.

        All lines are imported or none: with problems, the response is 422 and names each line. `dryRun` lists the
        problems, and how many people would be created and changed. The maximum is 1 MiB, about 10,000 people; `make
        import` takes larger files.
        """
        result = await people_import.run(await request.body(), member.key, dry_run=dry_run)
        if result.problems and not dry_run:
            raise refusal(result)
        return result

    return router
