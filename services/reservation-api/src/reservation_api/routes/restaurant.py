"""What a restaurant's staff do."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.auth import Auth
from reservation_api.domain.reservation import Act, Status
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.reservation_commands import Postpone, ReservationCommands
from reservation_api.reservations import Reservations, ReservationView
from reservation_api.schemas import PathId
from tablebell.people import UserType
from tablebell.tokens import Identity

Day = Annotated[
    date | None,
    Query(alias="date", description="A day of the restaurant's own.", ge=date(2000, 1, 1), le=date(2200, 12, 31)),
]


def restaurant_routes(auth: Auth, reservations: Reservations, commands: ReservationCommands) -> APIRouter:
    router = APIRouter(prefix="/restaurant/reservation", tags=["Restaurants"])
    staff = Annotated[Identity, Depends(auth.only(UserType.RESTAURANT_USER))]

    @router.get("", summary="List your restaurant's reservations, in the order of their time", responses=problems())
    async def list_own(
        who: staff, status: Status | None = None, day: Day = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[ReservationView]:
        return await reservations.of_staff(who.user_id, status, day, cursor, limit)

    @router.post("/{reservation_id}/accept", summary="Accept it", responses=problems(400, 404, 409, 413, 415))
    async def accept(who: staff, reservation_id: PathId) -> ReservationView:
        """The first of the staff to decide decides for all; the others get 409 with who it was."""
        return await commands.decide(who, reservation_id, Act.ACCEPT)

    @router.post("/{reservation_id}/reject", summary="Reject it", responses=problems(400, 404, 409, 413, 415))
    async def reject(who: staff, reservation_id: PathId) -> ReservationView:
        return await commands.decide(who, reservation_id, Act.REJECT)

    @router.post(
        "/{reservation_id}/postpone", summary="Propose another time", responses=problems(400, 404, 409, 413, 415)
    )
    async def postpone(who: staff, reservation_id: PathId, body: Postpone) -> ReservationView:
        """The customer confirms or declines it by an action on their notification."""
        return await commands.decide(who, reservation_id, Act.POSTPONE, body.proposed_time)

    return router
