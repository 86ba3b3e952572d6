"""The routes of a restaurant's staff."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.auth import Auth
from reservation_api.domain.reservation import Act, Status
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.reservation_commands import Cancellation, Postpone, ReservationCommands
from reservation_api.reservations import DecisionView, Reservations, ReservationView, StaffFilter, StaffReservationView
from reservation_api.schemas import PathId
from tablebell.people import UserType
from tablebell.tokens import Identity

Day = Annotated[
    date | None,
    Query(alias="date", description="A day in the restaurant's timezone.", ge=date(2000, 1, 1), le=date(2200, 12, 31)),
]

SearchText = Annotated[
    str | None,
    Query(min_length=1, max_length=100, description="Part of the guest's name, or digits of their phone number."),
]


def restaurant_routes(auth: Auth, reservations: Reservations, commands: ReservationCommands) -> APIRouter:
    router = APIRouter(prefix="/restaurant/reservation", tags=["Restaurants"])
    staff = Annotated[Identity, Depends(auth.only(UserType.RESTAURANT_USER))]

    @router.get("", summary="List your restaurant's reservations, ordered by time", responses=problems())
    async def list_own(
        identity: staff,
        *,
        status: Status | None = None,
        day: Day = None,
        q: SearchText = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[StaffReservationView]:
        return await reservations.of_staff(identity.user_id, StaffFilter(status=status, day=day, text=q), cursor, limit)

    @router.post(
        "/{reservation_id}/accept", summary="Accept a reservation", responses=problems(400, 404, 409, 413, 415)
    )
    async def accept(identity: staff, reservation_id: PathId) -> DecisionView:
        """The first decision counts. Later ones get 409 with its actor (`handledBy`). It can be undone for
        `undoSeconds`; the guest is told afterwards."""
        return await commands.decide(identity, reservation_id, Act.ACCEPT)

    @router.post(
        "/{reservation_id}/reject", summary="Reject a reservation", responses=problems(400, 404, 409, 413, 415)
    )
    async def reject(identity: staff, reservation_id: PathId) -> DecisionView:
        return await commands.decide(identity, reservation_id, Act.REJECT)

    @router.post(
        "/{reservation_id}/postpone", summary="Propose another time", responses=problems(400, 404, 409, 413, 415)
    )
    async def postpone(identity: staff, reservation_id: PathId, body: Postpone) -> DecisionView:
        """The customer confirms or declines the time with an action on their notification."""
        return await commands.decide(identity, reservation_id, Act.POSTPONE, body.proposed_time)

    @router.post(
        "/{reservation_id}/cancel", summary="Cancel an accepted table", responses=problems(400, 404, 409, 413, 415)
    )
    async def cancel(identity: staff, reservation_id: PathId, body: Cancellation) -> ReservationView:
        """The guest is told, with the reason. It cannot be undone."""
        return await commands.decide(identity, reservation_id, Act.CANCEL_AS_STAFF, reason=body.reason)

    @router.post(
        "/{reservation_id}/arrived", summary="The guests have arrived", responses=problems(400, 404, 409, 413, 415)
    )
    async def arrived(identity: staff, reservation_id: PathId) -> ReservationView:
        """Possible from 2 hours before the time of the reservation."""
        return await commands.decide(identity, reservation_id, Act.ARRIVE)

    @router.post(
        "/{reservation_id}/no-show", summary="The guests did not come", responses=problems(400, 404, 409, 413, 415)
    )
    async def no_show(identity: staff, reservation_id: PathId) -> ReservationView:
        """Possible from the time of the reservation on. The guest gets no thanks for the visit."""
        return await commands.decide(identity, reservation_id, Act.MISS)

    @router.post("/{reservation_id}/undo", summary="Undo the last act", responses=problems(400, 404, 409, 413, 415))
    async def undo(identity: staff, reservation_id: PathId) -> ReservationView:
        """Arrived and no-show at any time; a decision for its `undoSeconds`, later it is 409. The guest is never told
        of an undone decision, and the request is open again for all staff."""
        return await commands.decide(identity, reservation_id, Act.UNDO)

    return router
