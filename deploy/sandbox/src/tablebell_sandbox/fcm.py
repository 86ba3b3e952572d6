"""Firebase Cloud Messaging, HTTP v1: the token endpoint and `messages:send`."""

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Fault, HttpStatus, TokenStatus
from tablebell_sandbox.message import Description
from tablebell_sandbox.oauth import OAuthError, TokenIssuer
from tablebell_sandbox.provider import Provider, shown_headers
from tablebell_sandbox.store import Store

# status: (google.rpc code, FCM's errorCode)
STATUSES = {
    400: ("INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    403: ("PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
    404: ("NOT_FOUND", "UNREGISTERED"),
    429: ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"),
    500: ("INTERNAL", "INTERNAL"),
    503: ("UNAVAILABLE", "UNAVAILABLE"),
}
ERROR_CODES = {code for _, code in STATUSES.values()} | {"THIRD_PARTY_AUTH_ERROR", "UNSPECIFIED_ERROR"}
TARGETS = ("token", "topic", "condition")


def fcm_error(
    status: int, message: str, headers: dict[str, str] | None = None, code: str | None = None
) -> JSONResponse:
    """A `code` that is not one of FCM's gives an error of Google's front end, which answers before FCM."""
    name, usual = STATUSES.get(status, ("UNKNOWN", "UNSPECIFIED_ERROR"))
    if code is None or code in ERROR_CODES:
        details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code or usual}]
    else:
        name, details = code, []
    body = {"error": {"code": status, "message": message, "status": name, "details": details}}
    return JSONResponse(body, status, headers)


def unauthenticated() -> JSONResponse:
    """An error of Google's front end, which answers before FCM: no FcmError in the details."""
    message = "Request had invalid authentication credentials. Expected OAuth 2 access token."
    return JSONResponse({"error": {"code": 401, "message": message, "status": "UNAUTHENTICATED"}}, 401)


@dataclass(frozen=True, slots=True)
class Push:
    name: str
    payload: dict[str, Any]
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """The id in the message's data, else its collapse key, else the message itself."""
        message = self.payload["message"]
        data, android = _dict(message.get("data")), _dict(message.get("android"))
        apns = _dict(_dict(message.get("apns")).get("headers"))
        candidates = (
            data.get("channelSendId"),
            data.get("id"),
            android.get("collapseKey"),
            android.get("collapse_key"),
            apns.get("apns-collapse-id"),
        )
        return next((str(value) for value in candidates if value), "") or json.dumps(message, sort_keys=True)

    def describe(self) -> Description:
        message = self.payload["message"]
        notification, data = _dict(message.get("notification")), _dict(message.get("data"))
        title, body = notification.get("title") or data.get("title"), notification.get("body") or data.get("body")
        return Description(
            sender=None,
            subject=None if title is None else str(title),
            text="" if body is None else str(body),
            html=None,
            headers=shown_headers(self.headers),
            message_id=self.name,
            raw=self.payload,
        )


class FcmProvider(Provider):
    channel = Channel.PUSH

    def __init__(self, store: Store, active_faults: ActiveFaults, issuer: TokenIssuer) -> None:
        super().__init__(store, active_faults)
        self._issuer = issuer

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/projects/{project}/messages:send", self.send, methods=["POST"]),
                Route("/token", self.token, methods=["POST"]),
            ],
            exception_handlers={404: self._not_found},
        )

    async def token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(errors="replace")))
        fault = self._active_faults.take(Channel.PUSH, stage="token").fault
        if isinstance(fault, TokenStatus):
            return self.refuse(JSONResponse({"error": "internal_failure"}, fault.status))
        try:
            token = self._issuer.exchange(form)
        except OAuthError as error:
            return self.refuse(JSONResponse({"error": error.error, "error_description": error.description}, 400))
        answer = {"access_token": token, "expires_in": int(self._issuer.lifetime), "token_type": "Bearer"}
        return JSONResponse(answer)

    async def send(self, request: Request) -> Response:
        body = await request.body()
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._issuer.accepts(token):
            return self.refuse(unauthenticated())
        project = request.path_params["project"]
        if self._issuer.project not in (None, project):
            return self.refuse(fcm_error(403, f"Permission denied on project {project}", code="PERMISSION_DENIED"))
        payload, problem = _parse(body)
        if problem:
            return self.refuse(fcm_error(400, problem))
        name = f"projects/{project}/messages/0:{time.time_ns() // 1000}%{secrets.token_hex(8)}"
        push = Push(name, payload, dict(request.headers))
        to = next(payload["message"][target] for target in TARGETS if target in payload["message"])
        return await self.respond(request, to, push.key, push, JSONResponse({"name": name}))

    def fault_response(self, fault: Fault, to: str) -> Response:  # noqa: ARG002 - FCM does not repeat the token
        if not isinstance(fault, HttpStatus):
            return fcm_error(404, "Requested entity was not found.")
        if fault.status == 401 and fault.code is None:
            return unauthenticated()
        return fcm_error(fault.status, "Fault switched on in the sandbox", fault.headers, fault.code)

    @staticmethod
    async def _not_found(request: Request, _error: Exception) -> Response:
        message = f"The requested URL {request.url.path} was not found"
        return JSONResponse({"error": {"code": 404, "message": message, "status": "NOT_FOUND"}}, 404)


def _parse(body: bytes) -> tuple[dict[str, Any], str]:
    """Returns the payload and FCM's error message, which is empty if the payload is valid."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return {}, "Invalid JSON payload received."
    message = payload.get("message") if isinstance(payload, dict) else None
    if not isinstance(message, dict):
        return {}, "Invalid JSON payload received. The field 'message' must be an object."
    targets = [message[target] for target in TARGETS if target in message]
    if len(targets) != 1 or not isinstance(targets[0], str) or not targets[0]:
        return {}, "Exactly one of message.token, message.topic and message.condition must be given."
    data = message.get("data", {})
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        return {}, "Invalid value at 'message.data' (TYPE_STRING): every value must be a string."
    return payload, ""


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
