"""Sessions: an access token of 15 minutes, and a refresh token that is replaced whenever it is used.

A refresh token that was replaced before ends its session, because somebody else may hold a copy. The access tokens of a
session have its id as their `jti`: revoking that id ends all of them, and a trigger deletes the session.
"""

from datetime import UTC, datetime, timedelta

from reservation_api import store as api_store
from reservation_api.metrics import SIGN_INS
from reservation_api.problem import Problem, ProblemType
from reservation_api.sign_in import store
from reservation_api.sign_in.secret import RefreshToken, new_salt
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool
from tablebell.tokens import SigningKey, TokenRules

ACCESS_LIFETIME = timedelta(minutes=15)
REFRESH_LIFETIME = timedelta(days=30)
GRACE = timedelta(seconds=30)
"""For this time the replaced token gets the same new token again: an answer was lost, or two tabs refreshed at once."""


class SessionTokens(CamelModel):
    user_type: UserType
    user_id: int
    access_token: str
    expires_at: datetime
    """When the access token expires."""
    refresh_token: str
    """Valid once, for 30 days. Each refresh returns the next one."""


class Sessions:
    def __init__(self, pool: Pool, key: SigningKey | None, rules: TokenRules) -> None:
        self._pool = pool
        self._key = key
        self._rules = rules
        self._lifetime = min(ACCESS_LIFETIME.total_seconds(), rules.max_lifetime)

    @property
    def available(self) -> bool:
        """Without a private key another system issues the tokens."""
        return self._key is not None

    async def start(self, connection: Connection, user_type: UserType, user_id: int) -> SessionTokens | None:
        """A new session in the caller's transaction, or None if the person is not active."""
        if not await store.lock_active_person(connection, user_type, user_id):
            return None
        token = RefreshToken.new()
        await store.append_session(
            connection, token.session_id, user_type, user_id, token_hash=token.digest, lifetime=REFRESH_LIFETIME
        )
        return self._tokens(user_type, user_id, token)

    async def refresh(self, text: str) -> SessionTokens:
        given = RefreshToken.parse(text)
        if given is None:
            raise ended()

        async def work(connection: Connection) -> SessionTokens | None:
            session = await store.find_session_for_update(connection, given.session_id, given.digest, GRACE)
            if session is None:
                return None
            user_type, user_id = UserType(session["user_type"]), session["user_id"]
            if session["is_current"]:
                salt = new_salt()
                new = given.next(salt)
                await store.rotate_session(
                    connection,
                    given.session_id,
                    replaced_hash=given.digest,
                    new_hash=new.digest,
                    salt=salt,
                    lifetime=REFRESH_LIFETIME,
                )
            elif session["is_in_grace"]:
                new = given.next(session["salt"])
            else:
                SIGN_INS.labels("reused").inc()
                await api_store.append_revocation(connection, user_type, user_id, str(given.session_id))
                return None
            return self._tokens(user_type, user_id, new)

        tokens = await in_transaction(self._pool, work)
        if tokens is None:
            raise ended()
        SIGN_INS.labels("refreshed").inc()
        return tokens

    def _tokens(self, user_type: UserType, user_id: int, refresh: RefreshToken) -> SessionTokens:
        if self._key is None:
            raise not_set_up()
        expires = datetime.now(UTC).timestamp() + self._lifetime
        access = self._key.issue(
            user_type,
            user_id,
            audience=self._rules.audience,
            issuer=self._rules.issuer,
            seconds=self._lifetime,
            token_id=str(refresh.session_id),
        )
        return SessionTokens(
            user_type=user_type,
            user_id=user_id,
            access_token=access,
            expires_at=datetime.fromtimestamp(int(expires), UTC),
            refresh_token=str(refresh),
        )


def ended() -> Problem:
    return Problem(ProblemType.SESSION_ENDED)


def not_set_up() -> Problem:
    return Problem(ProblemType.NOT_FOUND, "Sign-in by e-mail is not set up here.")
