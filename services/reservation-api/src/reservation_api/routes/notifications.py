"""The inbox of whoever asks, and what they do with it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.auth import Auth
from reservation_api.inbox import Inbox, ReadAll, UnreadCount
from reservation_api.notification_actions import NotificationActions, Response
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.schemas import PathId
from tablebell.inbox import NotificationView
from tablebell.people import UserType
from tablebell.tokens import Identity


def notification_routes(auth: Auth, inbox: Inbox, responding: NotificationActions) -> APIRouter:
    router = APIRouter(prefix="/notifications", tags=["Inbox"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType))]

    @router.get("", summary="List your notifications, the newest first", responses=problems())
    async def list_own(
        who: anyone,
        *,
        unread: Annotated[bool, Query(description="Only what has not been read.")] = False,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[NotificationView]:
        return await inbox.page(who, unread=unread, cursor=cursor, limit=limit)

    @router.get("/unread-count", summary="How many you have not read", responses=problems())
    async def count_unread(who: anyone) -> UnreadCount:
        return UnreadCount(unread=await inbox.count_unread(who))

    @router.post("/read-all", summary="Mark all as read", responses=problems(400, 413, 415))
    async def read_all(who: anyone) -> ReadAll:
        return await inbox.read_all(who)

    @router.post("/{notification_id}/read", summary="Mark it as read", responses=problems(400, 404, 413, 415))
    async def read(who: anyone, notification_id: PathId) -> NotificationView:
        """What you share with others is read for all of them, and shows by whom (`readByUserId`)."""
        return await inbox.read(who, notification_id)

    @router.post("/{notification_id}/actions", summary="Act on it", responses=problems(400, 404, 409, 413, 415))
    async def respond(who: anyone, notification_id: PathId, body: Response) -> NotificationView:
        """`actions` of the notification says what is possible.

        On what staff share, exactly one wins; the others get 409 with who acted, how and when (`handledBy`).
        `CONFIRMED`, `REJECTED` and `POSTPONED` decide on the reservation; `DISMISSED` and `CUSTOM` take it off
        everyone's list. A customer answers a proposed time with `CONFIRMED`, which accepts it, or `REJECTED`, which
        cancels the reservation.
        """
        return await responding.respond(who, notification_id, body)

    return router
