"""The routes of the sign-in. They need no token; requests are limited per source address."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field, StringConstraints

from reservation_api.management.fields import Email
from reservation_api.problem import public_problems
from reservation_api.schemas import LARGEST_ID, Body
from reservation_api.sign_in.links import Exchanged, SignInLinks
from reservation_api.sign_in.sessions import Sessions, SessionTokens
from reservation_api.source_limit import SourceLimit
from tablebell.people import UserType

# The SHA-256 in base64url, without padding.
Challenge = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")]
Secret = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~-]{20,200}$")]


class Ask(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"email": "staff50@porto.example"}})

    email: Email
    challenge: Challenge | None = None
    """The SHA-256 of a random verifier, in base64url. With it, only whoever sends the verifier can use the link."""


class Person(Body):
    user_type: UserType
    user_id: Annotated[int, Field(strict=True, ge=1, le=LARGEST_ID)]


class Exchange(Body):
    model_config = ConfigDict(json_schema_extra={"example": {"code": "q1w2e3r4t5y6u7i8o9p0a1s2d3f4g5h6j7k8l9z0x1c"}})

    code: Secret
    verifier: Secret | None = None
    person: Person | None = None
    """One of the choices, if the address belongs to several people."""


class Refresh(Body):
    model_config = ConfigDict(
        json_schema_extra={"example": {"refreshToken": "0b5c1f0e-3a53-4e0e-9d0e-0d5f5b1c7a11.q1w2e3r4t5y6u7i8o9p0"}}
    )

    refresh_token: Secret


def sign_in_routes(links: SignInLinks, sessions: Sessions, asks: SourceLimit, others: SourceLimit) -> APIRouter:
    router = APIRouter(prefix="/sign-in", tags=["Sign-in"])

    @router.post(
        "",
        summary="Ask for a link by e-mail",
        status_code=202,
        responses=public_problems(400, 404, 413, 415),
        dependencies=[Depends(asks)],
    )
    async def ask(body: Ask) -> None:
        """If an active person has the address, they get a mail with a link that is valid once, for 15 minutes. The
        answer is the same if nobody has it."""
        await links.ask(body.email, body.challenge)

    @router.post(
        "/exchange",
        summary="Exchange the code of a link for a session",
        responses=public_problems(400, 409, 410, 413, 415),
        response_model_exclude_none=True,
        dependencies=[Depends(others)],
    )
    async def exchange(body: Exchange) -> Exchanged:
        """The code is the part of the link after `#sign-in=`. If the address belongs to several people, the answer has
        `choices`: send the code again with one of them."""
        chosen = (body.person.user_type, body.person.user_id) if body.person else None
        return await links.exchange(body.code, body.verifier, chosen)

    @router.post(
        "/refresh",
        summary="Renew a session",
        responses=public_problems(400, 401, 413, 415),
        dependencies=[Depends(others)],
    )
    async def refresh(body: Refresh) -> SessionTokens:
        """A refresh token is valid once. If a replaced one is used again, the session ends: somebody has a copy."""
        return await sessions.refresh(body.refresh_token)

    return router
