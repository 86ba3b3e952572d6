"""How whoever asks wants to be told."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.auth import Auth
from reservation_api.preferences import Preferences, PreferenceService
from reservation_api.problem import problems
from tablebell.people import UserType
from tablebell.tokens import Identity


def me_routes(auth: Auth, book: PreferenceService) -> APIRouter:
    router = APIRouter(prefix="/me", tags=["Preferences"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType))]

    @router.get("/preferences", summary="How you want to be told", responses=problems())
    async def find(who: anyone) -> Preferences:
        """What is not mentioned is as by default: restaurant users and customers EMAIL, SMS and PUSH, admins EMAIL and
        SLACK, agency users EMAIL, and all of them WEBSOCKET."""
        return await book.find(who)

    @router.put("/preferences", summary="Say how you want to be told", responses=problems(400, 413, 415))
    async def save(who: anyone, body: Preferences) -> Preferences:
        """Replaces all of it. In quiet hours only what is urgent is sent: a cancellation within 2 hours of its time."""
        return await book.save(who, body)

    return router
