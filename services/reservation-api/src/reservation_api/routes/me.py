"""The profile and the preferences of the current user."""

from typing import Annotated

from fastapi import APIRouter, Depends

from reservation_api.auth import Auth
from reservation_api.management.members import Member, Members
from reservation_api.management.profile import Profile, ProfileChange, Profiles
from reservation_api.preferences import Preferences, PreferenceService
from reservation_api.problem import problems
from reservation_api.routes.parameters import WRITE
from tablebell.people import UserType
from tablebell.tokens import Identity


def me_routes(auth: Auth, members: Members, profiles: Profiles, preferences: PreferenceService) -> APIRouter:
    router = APIRouter(prefix="/me", tags=["Profile and preferences"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType))]
    member = Annotated[Member, Depends(members.anyone())]

    @router.get("", summary="Get your profile", responses=problems(404))
    async def find_me(me: member) -> Profile:
        return await profiles.find(me)

    @router.patch("", summary="Change your profile", responses=problems(404, *WRITE))
    async def change_me(me: member, body: ProfileChange) -> Profile:
        """`fcmToken` is the device that gets your push messages: one device, the last one set."""
        return await profiles.change(me, body)

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
