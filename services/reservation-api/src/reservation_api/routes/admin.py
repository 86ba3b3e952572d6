"""What operators look at, and what they do about it."""

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


def admin_routes(auth: Auth, outbox: OutboxAdmin, addresses: AddressAdmin, tracing: ReservationHistory) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["Operators"])
    admin = Annotated[Identity, Depends(auth.only(UserType.ADMIN_USER))]

    @router.get("/outbox", summary="What waits, at which level and for how long", responses=problems())
    async def counts(_: admin) -> OutboxCounts:
        return await outbox.counts()

    @router.get("/outbox/dead", summary="List what could not be delivered", responses=problems())
    async def dead(
        _: admin,
        level: Level | None = None,
        error_contains: ErrorPart = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[DeadRow]:
        return await outbox.dead(level, error_contains, cursor, limit)

    @router.post("/outbox/requeue", summary="Try the dead again", responses=problems(400, 409, 413, 415))
    async def requeue(who: admin, body: Selection) -> Intervention:
        """With all their attempts. Try `dryRun` first: it says which rows it would be.

        What nobody needs any more is not sent: it is closed and listed in `notRequeued` with the reason.
        """
        return await outbox.intervene(who, "requeue", body)

    @router.post("/outbox/discard", summary="Let the dead go", responses=problems(400, 413, 415))
    async def discard(who: admin, body: Selection) -> Intervention:
        return await outbox.intervene(who, "discard", body)

    @router.get("/undeliverable-addresses", summary="List the addresses that are not tried", responses=problems())
    async def undeliverable(
        _: admin,
        channel: Channel | None = None,
        reason_contains: ReasonPart = None,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[UndeliverableAddress]:
        """A provider called them dead. They are tried again after 90 days, or when the person's address changes."""
        return await addresses.list(channel, reason_contains, cursor, limit)

    @router.post("/undeliverable-addresses/clear", summary="Try addresses again", responses=problems(400, 413, 415))
    async def clear(who: admin, body: AddressSelection) -> ClearedAddresses:
        """What comes next is sent there again. Try `dryRun` first: it says which addresses it would be."""
        return await addresses.clear(who, body)

    @router.get("/reservation/{reservation_id}/trace", summary="The story of a reservation", responses=problems(404))
    async def trace(who: admin, reservation_id: PathId) -> Trace:
        """Every event, who was notified of it, every channel and every attempt, with times.

        It is recorded which admin has read it.
        """
        return await tracing.trace(who, reservation_id)

    return router
