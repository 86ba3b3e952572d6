"""Access by role: the person behind a token with their role, restaurant and agency, read for each request."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends

from reservation_api.access import unknown_user
from reservation_api.auth import Auth
from reservation_api.management import store
from reservation_api.management.fields import Role
from reservation_api.problem import Problem, ProblemType
from tablebell.people import UserType
from tablebell.postgres import Pool
from tablebell.tokens import Identity


@dataclass(frozen=True, slots=True)
class Member:
    identity: Identity
    role: Role | None
    restaurant_id: int | None
    agency_id: int | None

    @property
    def key(self) -> tuple[UserType, int]:
        return self.identity.user_type, self.identity.user_id


Dependency = Callable[..., Coroutine[Any, Any, Member]]


class Members:
    def __init__(self, auth: Auth, pool: Pool) -> None:
        self._auth = auth
        self._pool = pool

    def admin_reader(self) -> Dependency:
        return self._member(UserType.ADMIN_USER)

    def admin(self) -> Dependency:
        """Admins who may change something: not READ_ONLY."""
        return self._member(UserType.ADMIN_USER, role=Role.ADMIN)

    def staff(self) -> Dependency:
        return self._member(UserType.RESTAURANT_USER)

    def manager(self) -> Dependency:
        return self._member(UserType.RESTAURANT_USER, role=Role.MANAGER)

    def agency_user(self) -> Dependency:
        return self._member(UserType.AGENCY_USER)

    def anyone(self) -> Dependency:
        return self._member(*UserType)

    def _member(self, *allowed: UserType, role: Role | None = None) -> Dependency:
        async def find(identity: Annotated[Identity, Depends(self._auth.only(*allowed))]) -> Member:
            row = await store.find_member(self._pool, identity.user_type, identity.user_id)
            if row is None or not row["active"]:
                raise unknown_user()
            if role is not None and row["role"] != role:
                raise Problem(ProblemType.NOT_FOR_THIS_USER, f"Only a {role} may do this.")
            known = Role(row["role"]) if row["role"] else None
            return Member(identity, known, row["restaurant_id"], row["agency_id"])

        return find
