"""Twilio's Messages resource: the part that sends a text."""

import base64
import hmac
import math
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Fault, HttpStatus
from tablebell_sandbox.message import Description
from tablebell_sandbox.provider import Provider, shown_headers
from tablebell_sandbox.store import Store

E164 = re.compile(r"\+[1-9]\d{6,14}", re.ASCII)
MAX_BODY = 1600
# The sender's reference, which Twilio ignores. The sandbox uses it only to count duplicates: creating a message is not
# idempotent, so each request creates one.
REFERENCE_HEADER = "x-channel-send-id"
# GSM 03.38: some characters take two places, and a single character outside of it makes the whole text UCS-2.
GSM_7_DOUBLE = frozenset("^{}\\[~]|€")
GSM_7 = GSM_7_DOUBLE.union(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿"
    "abcdefghijklmnopqrstuvwxyzäöñüà"
)
# Twilio's code for a status is usually 20000 plus the status.
CODES = {400: (20001, "Unknown parameters"), 429: (20429, "Too Many Requests")}


def twilio_error(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    body = {
        "code": code,
        "message": message,
        "more_info": f"https://www.twilio.com/docs/errors/{code}",
        "status": status,
    }
    return JSONResponse(body, status, headers)


def unauthenticated() -> JSONResponse:
    return twilio_error(401, 20003, "Authenticate", {"WWW-Authenticate": 'Basic realm="Twilio API"'})


def invalid_number(number: str) -> JSONResponse:
    return twilio_error(400, 21211, f"The 'To' number {number} is not a valid phone number.")


def segments(text: str) -> int:
    """The number of SMS segments, which determines the price."""
    if GSM_7.issuperset(text):
        length, single, joined = len(text) + sum(letter in GSM_7_DOUBLE for letter in text), 160, 153
    else:
        length, single, joined = len(text.encode("utf-16-be", "replace")) // 2, 70, 67
    return 1 if length <= single else math.ceil(length / joined)


@dataclass(frozen=True, slots=True)
class TextMessage:
    sid: str
    form: dict[str, str]
    headers: dict[str, str]

    @property
    def key(self) -> str:
        """The sender's reference; without one, the number and the text."""
        return self.headers.get(REFERENCE_HEADER) or f"{self.form['To']} {self.form['Body']}"

    def describe(self) -> Description:
        return Description(
            sender=self.form.get("From") or self.form.get("MessagingServiceSid"),
            subject=None,
            text=self.form["Body"],
            html=None,
            headers=shown_headers(self.headers),
            message_id=self.sid,
            raw=dict(self.form),
        )


class SmsProvider(Provider):
    channel = Channel.SMS

    def __init__(self, store: Store, active_faults: ActiveFaults, login: tuple[str, str] | None = None) -> None:
        super().__init__(store, active_faults)
        self._login = login

    def app(self) -> Starlette:
        send = Route("/2010-04-01/Accounts/{account}/Messages.json", self.send, methods=["POST"])
        return Starlette(routes=[send], exception_handlers={404: self._not_found})

    async def send(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(errors="replace")))
        if not self._authenticated(request.headers.get("authorization", "")):
            return self.refuse(unauthenticated())
        problem = self._problem(form)
        if problem is not None:
            return self.refuse(problem)
        message = TextMessage("SM" + secrets.token_hex(16), form, dict(request.headers))
        accepted = JSONResponse(self._resource(request.path_params["account"], message), 201)
        return await self.respond(request, form["To"], message.key, message, accepted)

    def fault_response(self, fault: Fault, to: str) -> Response:
        if not isinstance(fault, HttpStatus):
            return invalid_number(to)
        if fault.status == 401:
            return unauthenticated()
        code, message = CODES.get(fault.status, (20000 + fault.status, "Fault switched on in the sandbox"))
        return twilio_error(fault.status, int(fault.code) if fault.code else code, message, fault.headers)

    def _authenticated(self, authorization: str) -> bool:
        """Accepts any account and token, unless the settings contain a login."""
        scheme, _, encoded = authorization.partition(" ")
        try:
            account, colon, token = base64.b64decode(encoded, validate=True).partition(b":")
        except ValueError:
            return False
        if scheme.lower() != "basic" or not (account and colon and token):
            return False
        if self._login is None:
            return True
        right = [part.encode() for part in self._login]
        return hmac.compare_digest(account, right[0]) and hmac.compare_digest(token, right[1])

    @staticmethod
    def _problem(form: dict[str, str]) -> Response | None:
        if not form.get("To"):
            return twilio_error(400, 21604, "A 'To' phone number is required.")
        if not (form.get("From") or form.get("MessagingServiceSid")):
            return twilio_error(400, 21603, "A 'From' phone number is required.")
        if not form.get("Body"):
            return twilio_error(400, 21602, "Message body is required.")
        if len(form["Body"]) > MAX_BODY:
            return twilio_error(400, 21617, f"The concatenated message body exceeds the {MAX_BODY} character limit")
        return None if E164.fullmatch(form["To"]) else invalid_number(form["To"])

    @staticmethod
    def _resource(account: str, message: TextMessage) -> dict[str, object]:
        form, now = message.form, format_datetime(datetime.now(UTC))
        uri = f"/2010-04-01/Accounts/{account}/Messages/{message.sid}"
        return {
            "account_sid": account,
            "api_version": "2010-04-01",
            "body": form["Body"],
            "date_created": now,
            "date_sent": None,
            "date_updated": now,
            "direction": "outbound-api",
            "error_code": None,
            "error_message": None,
            "from": form.get("From"),
            "messaging_service_sid": form.get("MessagingServiceSid"),
            "num_media": "0",
            "num_segments": str(segments(form["Body"])),
            "price": None,
            "price_unit": "USD",
            "sid": message.sid,
            "status": "queued",
            "subresource_uris": {"media": f"{uri}/Media.json"},
            "to": form["To"],
            "uri": f"{uri}.json",
        }

    @staticmethod
    async def _not_found(request: Request, _error: Exception) -> Response:
        return twilio_error(404, 20404, f"The requested resource {request.url.path} was not found")
