"""The profile of the current user: name, addresses, role, language, and where they work."""

from datetime import datetime

from pydantic import ConfigDict, Field

from reservation_api.management import store
from reservation_api.management.fields import FcmToken, Locale, Name, Phone, Role, Timezone
from reservation_api.management.members import Member
from reservation_api.management.patch import Patch
from reservation_api.management.people import PeopleAdmin, Scope
from tablebell.events import CamelModel
from tablebell.people import UserType
from tablebell.postgres import Pool


class Workplace(CamelModel):
    id: int
    name: str
    timezone: str


class Profile(CamelModel):
    user_type: UserType
    user_id: int
    name: str
    email: str | None
    phone: str | None
    fcm_token: str | None
    """The device that gets push messages."""
    role: Role | None
    """Of staff: MANAGER or STAFF; of admins: ADMIN or READ_ONLY."""
    locale: str
    timezone: str
    restaurant: Workplace | None
    """Where a member of staff works."""
    agency_id: int | None
    updated_at: datetime


class ProfileChange(Patch):
    """Omitted fields stay unchanged. The e-mail address identifies a person: an admin, manager or agency changes it."""

    model_config = ConfigDict(json_schema_extra={"example": {"phone": "+393330000005", "locale": "en"}})
    required = frozenset({"name", "locale", "timezone"})

    name: Name | None = None
    phone: Phone | None = None
    locale: Locale | None = None
    timezone: Timezone | None = None
    fcm_token: FcmToken | None = Field(None, description="The device that gets push messages; null removes it.")


class Profiles:
    def __init__(self, pool: Pool, people: PeopleAdmin) -> None:
        self._pool = pool
        self._people = people

    async def find(self, member: Member) -> Profile:
        return await self._profile(await self._people.find(*member.key, Scope(user_id=member.identity.user_id)))

    async def change(self, member: Member, change: ProfileChange) -> Profile:
        scope = Scope(user_id=member.identity.user_id)
        return await self._profile(await self._people.change(member, *member.key, scope, change.given()))

    async def _profile(self, row: store.Row) -> Profile:
        workplace = None
        if row["restaurant_id"] is not None:
            restaurant = await store.find_managed_restaurant(self._pool, row["restaurant_id"])
            if restaurant is not None:
                workplace = Workplace(**{field: restaurant[field] for field in Workplace.model_fields})
        fields = {field: row[field] for field in Profile.model_fields if field != "restaurant"}
        return Profile(restaurant=workplace, **fields)
