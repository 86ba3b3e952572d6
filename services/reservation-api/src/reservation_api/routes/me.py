"""The profile and the preferences of the current user."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.auth import Auth
from reservation_api.preferences import Preferences, PreferenceService
from reservation_api.problem import problems
from reservation_api.profiles import Profile, Profiles
from tablebell.people import UserType
from tablebell.tokens import Identity


def me_routes(auth: Auth, profiles: Profiles, preferences: PreferenceService) -> APIRouter:
    router = APIRouter(prefix="/me", tags=["Preferences"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType))]

    @router.get("", summary="Get your profile", responses=problems())
    async def profile(identity: anyone) -> Profile:
        return await profiles.find(identity)

    @router.get("/preferences", summary="Get your notification preferences", responses=problems())
    async def find(identity: anyone) -> Preferences:
        """Channels that are not listed have their default: restaurant users and customers get EMAIL, SMS and PUSH,
        admins EMAIL and SLACK, agency users EMAIL, and all of them WEBSOCKET."""
        return await preferences.find(identity)

    @router.put("/preferences", summary="Replace your notification preferences", responses=problems(400, 413, 415))
    async def save(identity: anyone, body: Preferences) -> Preferences:
        """In quiet hours, only cancellations within 2 hours of the reservation's time are sent."""
        return await preferences.save(identity, body)

    return router
