"""The profile of the current user: name, role, language, and where they work."""

from reservation_api import store
from reservation_api.access import unknown_user
from tablebell.events import CamelModel
from tablebell.people import UserType
from tablebell.postgres import Pool
from tablebell.tokens import Identity


class Workplace(CamelModel):
    id: int
    name: str
    timezone: str


class Profile(CamelModel):
    user_type: UserType
    user_id: int
    name: str
    role: str | None
    """Of staff: MANAGER or STAFF; of admins: ADMIN or READ_ONLY."""
    locale: str
    timezone: str
    restaurant: Workplace | None
    """Where a member of staff works."""


class Profiles:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, identity: Identity) -> Profile:
        row = await store.find_profile(self._pool, identity.user_type, identity.user_id)
        if row is None:
            raise unknown_user()
        workplace = None
        if row["restaurant_id"] is not None:
            workplace = Workplace(
                id=row["restaurant_id"], name=row["restaurant_name"], timezone=row["restaurant_timezone"]
            )
        return Profile(
            user_type=identity.user_type,
            user_id=identity.user_id,
            name=row["name"],
            role=row["role"],
            locale=row["locale"],
            timezone=row["timezone"],
            restaurant=workplace,
        )
