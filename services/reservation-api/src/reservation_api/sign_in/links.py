"""Sign-in by e-mail link: ask for a link, and exchange its code for a session.

Nobody learns from `ask` whether an address is known: the answer and the work are the same. The code is bound to the
browser that asked, if it sent a challenge: the SHA-256 of a verifier that it keeps (as in PKCE, RFC 7636).
"""

import base64
from datetime import timedelta
from typing import Any

from asyncpg import Record

from reservation_api.metrics import SIGN_INS
from reservation_api.problem import Problem, ProblemType
from reservation_api.sign_in import store
from reservation_api.sign_in.mail import link_mail
from reservation_api.sign_in.secret import digest, new_code
from reservation_api.sign_in.sessions import Sessions, SessionTokens, not_set_up
from reservation_api.transaction import in_transaction
from tablebell.correlation import current
from tablebell.events import CamelModel
from tablebell.outbox.table import Level
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool
from tablebell.wakeups import WakeupSender

LINK_LIFETIME = timedelta(minutes=15)
NOBODY: dict[str, Any] = {"user_type": UserType.CUSTOMER, "user_id": 0, "name": "", "email": None, "locale": "it"}


class Choice(CamelModel):
    """One of the people who have the address."""

    user_type: UserType
    user_id: int
    name: str
    role: str | None = None
    at: str | None = None
    """The restaurant or the agency."""


class Exchanged(CamelModel):
    """Either a session, or the people to choose from: then send the code again with one of them."""

    session: SessionTokens | None = None
    choices: list[Choice] | None = None


class SignInLinks:
    def __init__(
        self, pool: Pool, wakeup_sender: WakeupSender, sessions: Sessions, *, pages_url: str | None, per_hour: int
    ) -> None:
        self._pool = pool
        self._wakeup_sender = wakeup_sender
        self._sessions = sessions
        self._pages_url = pages_url
        self._per_hour = per_hour

    @property
    def available(self) -> bool:
        return self._pages_url is not None and self._sessions.available

    async def ask(self, email: str, challenge: str | None) -> None:
        if not self.available:
            raise not_set_up()
        address, code = email.lower(), new_code()
        address_hash = digest(address)

        async def work(connection: Connection) -> bool:
            await store.lock_address(connection, address_hash)
            people = await store.find_people_by_email(connection, address)
            first = people[0] if people else NOBODY
            mail = link_mail(first["locale"], first["name"], f"{self._pages_url}/staff#sign-in={code}")
            return await store.append_sign_in(
                connection,
                address_hash=address_hash,
                code_hash=digest(code),
                challenge=_decode(challenge) if challenge else None,
                people=[f"{row['user_type']}:{row['user_id']}" for row in people],
                lifetime=LINK_LIFETIME,
                per_hour=self._per_hour,
                user_type=first["user_type"],
                user_id=first["user_id"],
                recipient=first["email"],
                message=mail.model_dump(mode="json", exclude_defaults=True) if people else {},
                headers=current().as_headers(),
            )

        allowed = await in_transaction(self._pool, work)
        SIGN_INS.labels("asked" if allowed else "limited").inc()
        self._wakeup_sender.announce(Level.CHANNEL_SEND)

    async def exchange(self, code: str, verifier: str | None, chosen: tuple[UserType, int] | None) -> Exchanged:
        async def work(connection: Connection) -> Exchanged | None:
            request = await store.find_sign_in_for_update(
                connection, digest(code), digest(verifier) if verifier else None
            )
            if request is None:
                return None
            if not request["same_browser"]:
                raise Problem(ProblemType.OTHER_BROWSER)
            people = await store.list_choices(connection, request["people"], request["address_hash"])
            if chosen is None and len(people) > 1:
                return Exchanged(choices=[choice(row) for row in people])
            keys = [(UserType(row["user_type"]), row["user_id"]) for row in people]
            key = next((key for key in keys if chosen in (None, key)), None)
            session = await self._sessions.start(connection, *key) if key else None
            if session is None:
                return None
            await store.use_sign_in(connection, request["id"])
            return Exchanged(session=session)

        exchanged = await in_transaction(self._pool, work)
        if exchanged is None:
            raise Problem(ProblemType.LINK_NOT_VALID)
        if exchanged.session is not None:
            SIGN_INS.labels("signed_in").inc()
        return exchanged


def choice(row: Record) -> Choice:
    return Choice(
        user_type=UserType(row["user_type"]),
        user_id=row["user_id"],
        name=row["name"],
        role=row["role"],
        at=row["restaurant_name"] or row["agency_name"],
    )


def _decode(challenge: str) -> bytes:
    return base64.urlsafe_b64decode(challenge + "=")
