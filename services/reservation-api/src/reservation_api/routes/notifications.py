"""The inbox of the current user, and actions on notifications."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from reservation_api.auth import Auth
from reservation_api.inbox import Counts, Inbox, ReadAll, Selection
from reservation_api.notification_actions import ActionAnswer, NotificationActions, Response
from reservation_api.paging import Cursor, Limit, Page
from reservation_api.problem import problems
from reservation_api.schemas import PathId
from tablebell.inbox import NotificationView
from tablebell.people import UserType
from tablebell.tokens import Identity


def notification_routes(auth: Auth, inbox: Inbox, actions: NotificationActions) -> APIRouter:
    router = APIRouter(prefix="/notifications", tags=["Inbox"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType))]

    @router.get("", summary="List your notifications, the newest first", responses=problems())
    async def list_own(
        identity: anyone,
        *,
        unread: Annotated[bool, Query(description="Only unread notifications.")] = False,
        is_open: Annotated[bool, Query(alias="open", description="Only those that wait for your answer.")] = False,
        cursor: Cursor = None,
        limit: Limit = 20,
    ) -> Page[NotificationView]:
        """With `open`, `unread` is ignored: a request stays open after it was read, until somebody answers it."""
        selection = Selection.OPEN if is_open else Selection.UNREAD if unread else Selection.ALL
        return await inbox.page(identity, selection, cursor, limit)

    @router.get("/unread-count", summary="Count your unread and your open notifications", responses=problems())
    async def count(identity: anyone) -> Counts:
        return await inbox.count(identity)

    @router.post("/read-all", summary="Mark all notifications as read", responses=problems(400, 413, 415))
    async def read_all(identity: anyone) -> ReadAll:
        return await inbox.read_all(identity)

    @router.post(
        "/{notification_id}/read", summary="Mark a notification as read", responses=problems(400, 404, 413, 415)
    )
    async def read(identity: anyone, notification_id: PathId) -> NotificationView:
        """A shared notification is marked as read for all recipients; `readByUserId` is the reader."""
        return await inbox.read(identity, notification_id)

    @router.post(
        "/{notification_id}/actions", summary="Act on a notification", responses=problems(400, 404, 409, 413, 415)
    )
    async def respond(identity: anyone, notification_id: PathId, body: Response) -> ActionAnswer:
        """`actions` of the notification lists the possible actions.

        On a shared notification, exactly one request succeeds; later ones get 409 with the actor, action and time
        (`handledBy`). `CONFIRMED`, `REJECTED` and `POSTPONED` decide on the reservation; `CUSTOM` only resolves the
        notification for all recipients. `DISMISSED` hides it for you; for the others it stays open. A customer,
        or their agency, answers a proposed time with `CONFIRMED`, which accepts it, or `REJECTED`, which cancels the
        reservation.
        """
        return await actions.respond(identity, notification_id, body)

    return router
