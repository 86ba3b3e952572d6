"""The routes of operators."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AfterValidator

from reservation_api.address_admin import AddressAdmin, AddressSelection, ClearedAddresses, UndeliverableAddress
from reservation_api.auth import Auth
from reservation_api.outbox_admin import DeadRow, Intervention, OutboxAdmin, OutboxCounts, Selection
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.reservation_history import ReservationHistory, Trace
from reservation_api.schemas import PathId, printable
from tablebell.outbox import Level
from tablebell.people import Channel, UserType
from tablebell.tokens import Identity

ErrorPart = Annotated[
    str | None,
    Query(alias="errorContains", min_length=1, max_length=500),
    AfterValidator(lambda text: printable(text) if text else text),
]


ReasonPart = Annotated[
    str | None,
    Query(alias="reasonContains", min_length=1, max_length=500),
    AfterValidator(lambda text: printable(text) if text else text),
]


def admin_routes(auth: Auth, outbox: OutboxAdmin, addresses: AddressAdmin, history: ReservationHistory) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["Operators"])
    admin = Annotated[Identity, Depends(auth.only(UserType.ADMIN_USER))]

    @router.get("/outbox", summary="Count rows by level and status, with the age of the oldest", responses=problems())
    async def counts(_: admin) -> OutboxCounts:
        return await outbox.counts()

    @router.get("/outbox/dead", summary="List dead rows", responses=problems())
    async def dead(
        _: admin,
        level: Level | None = None,
        error_contains: ErrorPart = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[DeadRow]:
        return await outbox.dead(level, error_contains, cursor, limit)

    @router.post("/outbox/requeue", summary="Requeue dead rows", responses=problems(400, 409, 413, 415))
    async def requeue(identity: admin, body: Selection) -> Intervention:
        """The rows get all their attempts again. `dryRun` lists the rows without changing them.

        Outdated rows are not sent. They are closed and listed in `notRequeued` with the reason.
        """
        return await outbox.intervene(identity, "requeue", body)

    @router.post("/outbox/discard", summary="Discard dead rows", responses=problems(400, 413, 415))
    async def discard(identity: admin, body: Selection) -> Intervention:
        return await outbox.intervene(identity, "discard", body)

    @router.get("/undeliverable-addresses", summary="List undeliverable addresses", responses=problems())
    async def undeliverable(
        _: admin,
        channel: Channel | None = None,
        reason_contains: ReasonPart = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[UndeliverableAddress]:
        """A provider reported them as invalid. They are tried again after 90 days, or when the address changes."""
        return await addresses.list(channel, reason_contains, cursor, limit)

    @router.post(
        "/undeliverable-addresses/clear", summary="Clear undeliverable addresses", responses=problems(400, 413, 415)
    )
    async def clear(identity: admin, body: AddressSelection) -> ClearedAddresses:
        """The next notifications are sent there again. `dryRun` lists the addresses without changing them."""
        return await addresses.clear(identity, body)

    @router.get("/reservation/{reservation_id}/trace", summary="Trace a reservation", responses=problems(404))
    async def trace(identity: admin, reservation_id: PathId) -> Trace:
        """Every event with its notifications, channels and attempts. The access is recorded."""
        return await history.trace(identity, reservation_id)

    return router
