"""What customers do, and agencies for them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header

from reservation_api.auth import Auth
from reservation_api.create_reservation import Ask, CreateReservation
from reservation_api.domain.reservation import Status
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.reservation_commands import Change, ReservationCommands
from reservation_api.reservations import Reservations, ReservationView
from reservation_api.schemas import PathId
from tablebell.people import UserType
from tablebell.tokens import Identity

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="For 24 hours the same key and body get the first answer again, and nothing is done twice.",
        examples=["7d0e6f8a-3c5b-4d21-9a44-0f6f0f1c2b3d"],
    ),
]


def customer_routes(
    auth: Auth, create_reservation: CreateReservation, reservations: Reservations, commands: ReservationCommands
) -> APIRouter:
    router = APIRouter(prefix="/customer/reservation", tags=["Customers"])
    customer = Annotated[Identity, Depends(auth.only(UserType.CUSTOMER))]
    asker = Annotated[Identity, Depends(auth.only(UserType.CUSTOMER, UserType.AGENCY_USER))]

    @router.post("/ask", summary="Ask for a table", responses=problems(400, 404, 409, 413, 415))
    async def ask(who: asker, body: Ask, idempotency_key: IdempotencyKey = None) -> ReservationView:
        """A customer asks for themselves, an agency's user for a customer of their agency.

        A `slotTime` without an offset is in the restaurant's timezone. The restaurant's staff, the customer, the admins
        and the agency are notified.
        """
        return await create_reservation.ask(who, body, idempotency_key)

    @router.get("", summary="List your reservations, the newest first", responses=problems())
    async def list_own(
        who: customer, status: Status | None = None, cursor: Cursor = None, limit: Limit = 20
    ) -> Page[ReservationView]:
        return await reservations.of_customer(who.user_id, status, cursor, limit)

    @router.get("/{reservation_id}", summary="One of your reservations", responses=problems(404))
    async def find_own(who: customer, reservation_id: PathId) -> ReservationView:
        return await reservations.find(who.user_id, reservation_id)

    @router.patch("/{reservation_id}", summary="Change it", responses=problems(400, 404, 409, 413, 415))
    async def change(who: customer, reservation_id: PathId, body: Change) -> ReservationView:
        """The restaurant has to accept it again: its status becomes `NOT_ACCEPTED`, its reminders are withdrawn."""
        return await commands.change(who, reservation_id, body)

    @router.post("/{reservation_id}/cancel", summary="Cancel it", responses=problems(400, 404, 409, 413, 415))
    async def cancel(who: customer, reservation_id: PathId) -> ReservationView:
        return await commands.cancel(who, reservation_id)

    return router
