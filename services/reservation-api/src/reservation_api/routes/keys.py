"""The public keys of the tokens that this service issues, as every JWKS client expects them."""

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from tablebell.tokens import SigningKey

CACHE_SECONDS = 300


def key_routes(signing_key: SigningKey | None) -> APIRouter:
    """Without a key of its own the service issues no tokens, and the list is empty."""
    router = APIRouter(include_in_schema=False)
    body = orjson.dumps(signing_key.jwks if signing_key else {"keys": []})

    @router.get("/.well-known/jwks.json")
    async def keys() -> Response:
        return Response(
            body, headers={"Cache-Control": f"public, max-age={CACHE_SECONDS}"}, media_type="application/json"
        )

    return router
