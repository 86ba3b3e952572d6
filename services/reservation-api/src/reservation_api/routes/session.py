"""The route that ends the current user's tokens."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, StrictBool

from reservation_api.access import revoke_all_tokens, revoke_token
from reservation_api.auth import Auth
from reservation_api.problem import problems
from reservation_api.schemas import Body
from tablebell.people import UserType
from tablebell.postgres import Pool
from tablebell.tokens import Identity


class SignOut(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"everywhere": True}})

    everywhere: StrictBool = False
    """True: all tokens and sessions that you have now. False: only the token of this request, and its session."""


HERE = SignOut()


def session_routes(auth: Auth, pool: Pool) -> APIRouter:
    router = APIRouter(tags=["Profile and preferences"])
    anyone = Annotated[Identity, Depends(auth.only(*UserType, for_read_only=True))]

    @router.post("/sign-out", summary="Sign out", status_code=204, responses=problems(400, 413, 415))
    async def sign_out(identity: anyone, body: SignOut = HERE) -> None:
        """The API refuses the token, and the gateway closes its sockets, within 5 seconds. The refresh token of the
        session is not valid any more."""
        if body.everywhere:
            await revoke_all_tokens(pool, identity.user_type, identity.user_id)
        else:
            await revoke_token(pool, identity)

    return router
