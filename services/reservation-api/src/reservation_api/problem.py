"""Problem details (RFC 9457): the body of every error response is built here."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tablebell.correlation import current
from tablebell.events import CamelModel
from tablebell.outage import OUTAGES, describe

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"


class ProblemType(Enum):
    """The name in lower case with dashes is the last part of the `type` URN."""

    MALFORMED = (400, "The request is malformed.")
    NO_VALID_TOKEN = (401, "A valid bearer token is required.")
    SESSION_ENDED = (401, "The session has ended. Sign in again.")
    NOT_FOR_THIS_USER = (403, "Users of this type may not do this.")
    NOT_FOUND = (404, "The resource does not exist, or it is not yours.")
    METHOD_NOT_ALLOWED = (405, "The method is not allowed for this path.")
    ALREADY_HANDLED = (409, "Another person acted first.")
    NOT_POSSIBLE_NOW = (409, "This is not possible in the current state.")
    DOUBLE_BOOKING = (409, "The customer has another reservation around that time.")
    DUPLICATE = (409, "It exists already.")
    STILL_RUNNING = (409, "The first request with this key is still running.")
    OTHER_BROWSER = (409, "The sign-in link was requested in another browser. Open it there, or ask for a new one.")
    LINK_NOT_VALID = (410, "The sign-in link has been used or has expired. Ask for a new one.")
    TOO_LARGE = (413, "The request body is too large.")
    NOT_JSON = (415, "The request body must be JSON.")
    INVALID = (422, "The request is not valid.")
    KEY_REUSED = (422, "This key was used for another request.")
    TOO_MANY_REQUESTS = (429, "Too many requests.")
    LIMIT_REACHED = (429, "A limit has been reached.")
    INTERNAL = (500, "An internal error occurred.")
    UNAVAILABLE = (503, "The service is temporarily unavailable. Try again.")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]

    @property
    def type(self) -> str:
        return f"urn:tablebell:problem:{self.name.lower().replace('_', '-')}"


class FieldError(CamelModel):
    field: str
    message: str


class HandledBy(CamelModel):
    """Who acted, how and when."""

    action: str
    actor_type: str
    actor_id: int
    actor_name: str
    at: datetime


class DuplicateOf(CamelModel):
    """What has the same value already."""

    field: str
    id: int | None = None


class ProblemBody(CamelModel):
    type: str
    title: str
    status: int
    detail: str
    correlation_id: str
    errors: list[FieldError] | None = None
    handled_by: HandledBy | None = None
    duplicate_of: DuplicateOf | None = None


class Problem(Exception):
    """Raised anywhere during a request, it becomes the response."""

    def __init__(
        self,
        kind: ProblemType,
        detail: str = "",
        *,
        errors: Sequence[FieldError] = (),
        handled_by: HandledBy | None = None,
        duplicate_of: DuplicateOf | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or kind.title)
        self.kind = kind
        self.errors = list(errors)
        self.handled_by = handled_by
        self.duplicate_of = duplicate_of
        self.headers = headers

    @classmethod
    def of_field(cls, field: str, message: str) -> "Problem":
        return cls(ProblemType.INVALID, message, errors=[FieldError(field=field, message=message)])

    def response(self) -> Response:
        body = ProblemBody(
            type=self.kind.type,
            title=self.kind.title,
            status=self.kind.status,
            detail=str(self),
            correlation_id=current().correlation_id,
            errors=self.errors or None,
            handled_by=self.handled_by,
            duplicate_of=self.duplicate_of,
        )
        content = body.model_dump_json(by_alias=True, exclude_none=True)
        return Response(content, self.kind.status, self.headers, MEDIA_TYPE)


def not_found(what: str) -> Problem:
    return Problem(ProblemType.NOT_FOUND, f"The {what} does not exist, or it is not yours.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: these statuses and those that every route with a token can return."""
    return public_problems(401, 403, *statuses)


def public_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route without a token."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema, "example": example(status)}},
        }
        for status in sorted({*statuses, 422, 429, 503})
    }


def example(status: int) -> dict[str, Any]:
    kind = next(kind for kind in ProblemType if kind.status == status)
    shown: dict[str, Any] = {
        "type": kind.type,
        "title": kind.title,
        "status": status,
        "detail": kind.title,
        "correlationId": "6f1c2a0e9b7d4e53",
    }
    if kind is ProblemType.INVALID:
        shown["errors"] = [{"field": "partySize", "message": "Input should be greater than or equal to 1"}]
    if kind is ProblemType.ALREADY_HANDLED:
        shown["handledBy"] = {
            "action": "CONFIRMED",
            "actorType": "RESTAURANT_USER",
            "actorId": 51,
            "actorName": "Marco Riva",
            "at": "2027-11-01T18:03:21.512345Z",
        }
    return shown


def answer_with_problems(app: FastAPI) -> None:
    """Turn every error into a problem, the framework's included. No exception's text reaches a client."""

    async def raised(_: Request, problem: Exception) -> Response:
        assert isinstance(problem, Problem)  # noqa: S101 - registered for this class
        return problem.response()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class
        return _from_validation(error).response()

    async def framework(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
        by_status = {404: ProblemType.NOT_FOUND, 405: ProblemType.METHOD_NOT_ALLOWED}
        return Problem(by_status.get(error.status_code, ProblemType.MALFORMED), headers=error.headers).response()

    async def unavailable(_: Request, outage: Exception) -> Response:
        log.warning("request_interrupted", error=describe(outage))
        return Problem(ProblemType.UNAVAILABLE, headers={"Retry-After": "1"}).response()

    app.add_exception_handler(Problem, raised)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, framework)
    for outage in OUTAGES:
        app.add_exception_handler(outage, unavailable)


def _from_validation(error: RequestValidationError) -> Problem:
    details = error.errors()
    if any(detail["type"] == "json_invalid" for detail in details):
        return Problem(ProblemType.MALFORMED, "The request body is not valid JSON.")
    errors = [
        FieldError(field=_field(detail["loc"]), message=detail["msg"].removeprefix("Value error, "))
        for detail in details[:20]
    ]
    return Problem(ProblemType.INVALID, "; ".join(f"{each.field}: {each.message}" for each in errors), errors=errors)


def _field(location: Sequence[int | str]) -> str:
    """("body", "quietHours", "from") → quietHours.from"""
    return ".".join(str(part)[:100] for part in location[1:]) or str(location[0])
