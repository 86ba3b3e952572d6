"""The routes of the other services, which have a token of their own (INTERNAL_API_TOKEN)."""

import hashlib
import hmac
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends
from fastapi.security import HTTPAuthorizationCredentials
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from reservation_api import store
from reservation_api.auth import bearer
from reservation_api.problem import Problem, ProblemType
from tablebell.access_list import PEOPLE_PATH, REVOCATIONS_PATH, People, Revocation, RevocationList
from tablebell.frames import address
from tablebell.postgres import Pool

log = structlog.get_logger(__name__)


def internal_routes(pool: Pool, token: SecretStr | None) -> APIRouter:
    async def only_services(
        request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
    ) -> None:
        given = credentials.credentials.encode() if credentials else b""
        if token is None or not hmac.compare_digest(given, token.get_secret_value().encode()):
            log.warning("service_refused", path=request.url.path, client=request.client and request.client.host)
            raise Problem(ProblemType.NO_VALID_TOKEN, headers={"WWW-Authenticate": "Bearer"})

    router = APIRouter(include_in_schema=False, dependencies=[Depends(only_services)])

    @router.get(REVOCATIONS_PATH)
    async def revocations(request: Request) -> Response:
        """304 if nothing has changed: the gateways ask every few seconds."""
        listed = [
            Revocation(
                person=address(row["user_type"], row["user_id"]),
                token_id=row["token_id"],
                issued_before=row["issued_before"],
            )
            for row in await store.list_revocations(pool)
        ]
        body = RevocationList(revocations=listed).model_dump_json(by_alias=True).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if request.headers.get("If-None-Match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return Response(body, headers={"ETag": tag}, media_type="application/json")

    @router.post(PEOPLE_PATH)
    async def without_access(body: People) -> People:
        """Those of the given people who do not exist or are inactive."""
        asked = [person.partition(":") for person in body.people]
        rows = await store.list_people_without_access(
            pool, [user_type for user_type, _, _ in asked], [int(user_id) for _, _, user_id in asked]
        )
        return People(people=[address(row["user_type"], row["user_id"]) for row in rows])

    return router
