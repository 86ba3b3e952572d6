"""The routes of a restaurant's staff."""

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
    Query(alias="date", description="A day in the restaurant's timezone.", ge=date(2000, 1, 1), le=date(2200, 12, 31)),
]


def restaurant_routes(auth: Auth, reservations: Reservations, commands: ReservationCommands) -> APIRouter:
    router = APIRouter(prefix="/restaurant/reservation", tags=["Restaurants"])
    staff = Annotated[Identity, Depends(auth.only(UserType.RESTAURANT_USER))]

    @router.get("", summary="List your restaurant's reservations, ordered by time", responses=problems())
    async def list_own(
        identity: staff, status: Status | None = None, day: Day = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[ReservationView]:
        return await reservations.of_staff(identity.user_id, status, day, cursor, limit)

    @router.post(
        "/{reservation_id}/accept", summary="Accept a reservation", responses=problems(400, 404, 409, 413, 415)
    )
    async def accept(identity: staff, reservation_id: PathId) -> ReservationView:
        """The first decision counts. Later ones get 409 with its actor (`handledBy`)."""
        return await commands.decide(identity, reservation_id, Act.ACCEPT)

    @router.post(
        "/{reservation_id}/reject", summary="Reject a reservation", responses=problems(400, 404, 409, 413, 415)
    )
    async def reject(identity: staff, reservation_id: PathId) -> ReservationView:
        return await commands.decide(identity, reservation_id, Act.REJECT)

    @router.post(
        "/{reservation_id}/postpone", summary="Propose another time", responses=problems(400, 404, 409, 413, 415)
    )
    async def postpone(identity: staff, reservation_id: PathId, body: Postpone) -> ReservationView:
        """The customer confirms or declines the time with an action on their notification."""
        return await commands.decide(identity, reservation_id, Act.POSTPONE, body.proposed_time)

    return router
