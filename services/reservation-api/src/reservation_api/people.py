"""The person that a token identifies, read from the database."""

from dataclasses import dataclass

from reservation_api import store
from reservation_api.access import unknown_user
from tablebell.events import Actor
from tablebell.people import Audience, UserType
from tablebell.postgres import Executor
from tablebell.tokens import Identity

AUDIENCES = {audience.user_type: audience for audience in Audience}


@dataclass(frozen=True, slots=True)
class Person:
    user_type: UserType
    user_id: int
    name: str
    restaurant_id: int | None

    @property
    def key(self) -> tuple[UserType, int]:
        return self.user_type, self.user_id

    @property
    def actor(self) -> Actor:
        return Actor(user_type=self.user_type, user_id=self.user_id, name=self.name)

    @property
    def audience(self) -> Audience:
        return AUDIENCES[self.user_type]


async def find_person(connection: Executor, identity: Identity) -> Person:
    row = await store.find_person(connection, identity.user_type, identity.user_id)
    if row is None:
        raise unknown_user()
    return Person(identity.user_type, identity.user_id, row["name"], row["restaurant_id"])
