"""The routes of customers, and of agencies on their behalf."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query

from reservation_api.auth import Auth
from reservation_api.create_reservation import Ask, CreateReservation
from reservation_api.domain.reservation import Status
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.reservation_commands import Change, ReservationCommands
from reservation_api.reservations import Reservations, ReservationView
from reservation_api.routes.parameters import QueryId
from reservation_api.schemas import PathId
from tablebell.people import UserType
from tablebell.tokens import Identity

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="For 24 hours, the same key and body return the first response again, without further effect.",
        examples=["7d0e6f8a-3c5b-4d21-9a44-0f6f0f1c2b3d"],
    ),
]


def customer_routes(
    auth: Auth, create_reservation: CreateReservation, reservations: Reservations, commands: ReservationCommands
) -> APIRouter:
    router = APIRouter(prefix="/customer/reservation", tags=["Customers"])
    guest = Annotated[Identity, Depends(auth.only(UserType.CUSTOMER, UserType.AGENCY_USER))]

    @router.post("/ask", summary="Request a reservation", responses=problems(400, 404, 409, 413, 415))
    async def ask(identity: guest, body: Ask, idempotency_key: IdempotencyKey = None) -> ReservationView:
        """Customers reserve for themselves, agency users for customers of their agency.

        A `slotTime` without an offset is in the restaurant's timezone. The restaurant's staff, the customer, the admins
        and the agency are notified.
        """
        return await create_reservation.ask(identity, body, idempotency_key)

    @router.get("", summary="List reservations, the newest first", responses=problems())
    async def list_own(
        identity: guest,
        *,
        customer_id: Annotated[QueryId, Query(alias="customerId")] = None,
        status: Status | None = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[ReservationView]:
        """Customers get their own, agency users those of their agency's customers."""
        if identity.user_type is UserType.AGENCY_USER:
            return await reservations.of_agency(identity.user_id, customer_id, status, cursor, limit)
        if customer_id not in {None, identity.user_id}:
            return Page(items=[], next_cursor=None)
        return await reservations.of_customer(identity.user_id, status, cursor, limit)

    @router.get("/{reservation_id}", summary="Get a reservation", responses=problems(404))
    async def find_own(identity: guest, reservation_id: PathId) -> ReservationView:
        return await reservations.find(identity, reservation_id)

    @router.patch("/{reservation_id}", summary="Change a reservation", responses=problems(400, 404, 409, 413, 415))
    async def change(identity: guest, reservation_id: PathId, body: Change) -> ReservationView:
        """The status becomes `NOT_ACCEPTED`, and the restaurant must accept again. Planned reminders are withdrawn."""
        return await commands.change(identity, reservation_id, body)

    @router.post(
        "/{reservation_id}/cancel", summary="Cancel a reservation", responses=problems(400, 404, 409, 413, 415)
    )
    async def cancel(identity: guest, reservation_id: PathId) -> ReservationView:
        return await commands.cancel(identity, reservation_id)

    return router
