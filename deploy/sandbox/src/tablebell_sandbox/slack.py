"""Slack's incoming webhooks, which respond in plain text."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Fault, HttpStatus
from tablebell_sandbox.message import Description
from tablebell_sandbox.provider import Provider, shown_headers

ERRORS = {400: "invalid_payload", 401: "invalid_auth", 403: "invalid_token", 404: "no_service", 429: "rate_limited"}


@dataclass(frozen=True, slots=True)
class Post:
    payload: dict[str, Any]
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """The id in the message's metadata; without one, the same payload is the same message."""
        event = _dict(_dict(self.payload.get("metadata")).get("event_payload"))
        for name in ("channelSendId", "id"):
            if name in event:
                return str(event[name])
        return json.dumps(self.payload, sort_keys=True)

    def describe(self) -> Description:
        blocks = [block for block in _list(self.payload.get("blocks")) if isinstance(block, dict)]
        titles = [text for block in blocks if block.get("type") == "header" for text in _texts(block)]
        text = self.payload.get("text") or "\n".join(text for block in blocks for text in _texts(block))
        return Description(
            sender=None,
            subject=titles[0] if titles else None,
            text=str(text),
            html=None,
            headers=shown_headers(self.headers),
            message_id=None,
            raw=self.payload,
        )


class SlackProvider(Provider):
    channel = Channel.SLACK

    def app(self) -> Starlette:
        hook = Route("/services/{team}/{bot}/{token}", self.post, methods=["POST"])
        return Starlette(routes=[hook], exception_handlers={404: self._not_found})

    async def post(self, request: Request) -> Response:
        team, bot = request.path_params["team"], request.path_params["bot"]
        if not (team.startswith("T") and bot.startswith("B")):
            return self.refuse(PlainTextResponse("no_service", 404))
        payload = _payload(await request.body(), request.headers.get("content-type", ""))
        if payload is None:
            return self.refuse(PlainTextResponse("invalid_payload", 400))
        if not (payload.get("text") or payload.get("blocks") or payload.get("attachments")):
            return self.refuse(PlainTextResponse("no_text", 400))
        post = Post(payload, dict(request.headers))
        return await self.respond(request, f"{team}/{bot}", post.key, post, PlainTextResponse("ok"))

    def fault_response(self, fault: Fault, to: str) -> Response:  # noqa: ARG002 - Slack does not repeat the recipient
        if not isinstance(fault, HttpStatus):
            raise TypeError(f"not a fault of Slack: {fault!r}")
        error = fault.code or ERRORS.get(fault.status, "server_error")
        return PlainTextResponse(error, fault.status, fault.headers)

    @staticmethod
    async def _not_found(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse("no_service", 404)


def _payload(body: bytes, content_type: str) -> dict[str, Any] | None:
    """JSON, or the older form with JSON in its field `payload`."""
    try:
        if content_type.startswith("application/x-www-form-urlencoded"):
            body = dict(parse_qsl(body)).get(b"payload", b"")
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _texts(block: dict[str, Any]) -> list[str]:
    """A block's own text and those of its fields and elements."""
    parts = [block.get("text"), *_list(block.get("fields")), *_list(block.get("elements"))]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return [text for text in texts if isinstance(text, str)]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
