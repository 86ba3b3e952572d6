"""Push notifications by Firebase Cloud Messaging, HTTP v1."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import AfterValidator, AnyHttpUrl, Field, FilePath

from channel_dispatcher.channels.http import HttpProvider, judge_answer, open_http, read_object
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec, Concurrency, PerSecond
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.error_rules import ErrorClass, Rules
from channel_dispatcher.limits import Limits
from channel_dispatcher.oauth import AccessTokens, ServiceAccount
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent
from tablebell.messages import PushMessage
from tablebell.people import Channel

# INVALID_ARGUMENT at message.token: FCM has no code of its own for it.
INVALID_ADDRESS = "INVALID_ADDRESS"
# https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode. Without such a code Google answered before FCM.
RULES = Rules(
    {
        "404 UNREGISTERED": ErrorClass.DEAD_ADDRESS,  # the app is gone from that device
        "403 SENDER_ID_MISMATCH": ErrorClass.DEAD_ADDRESS,  # the token belongs to another sender's app
        f"400 {INVALID_ADDRESS}": ErrorClass.DEAD_ADDRESS,  # Not a valid FCM registration token
        "400": ErrorClass.REFUSED,  # INVALID_ARGUMENT: too big, a reserved data key, ...
        "401": ErrorClass.MISCONFIGURED,  # UNAUTHENTICATED; THIRD_PARTY_AUTH_ERROR: APNs or Web Push, some devices only
        "403": ErrorClass.MISCONFIGURED,  # PERMISSION_DENIED: the account may not send for this project
        "404": ErrorClass.MISCONFIGURED,  # NOT_FOUND: no such project
        "408": ErrorClass.DOWN,
        "413": ErrorClass.REFUSED,
        "429": ErrorClass.THROTTLED,  # QUOTA_EXCEEDED, of the project or of one device
        "4xx": ErrorClass.REFUSED,
        "5xx": ErrorClass.DOWN,  # INTERNAL, UNAVAILABLE, UNSPECIFIED_ERROR
    }
)


def _check_account(path: Path) -> Path:
    ServiceAccount.read(path)
    return path


class PushSettings(ChannelSettings):
    fcm_api_url: AnyHttpUrl
    fcm_project: Annotated[str, Field(min_length=1)]
    fcm_credentials_file: Annotated[FilePath, AfterValidator(_check_account)]
    push_concurrency: Concurrency = 16
    push_per_second: PerSecond | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.push_concurrency, self.push_per_second)


class PushSender:
    def __init__(self, provider: HttpProvider, tokens: AccessTokens, settings: PushSettings) -> None:
        base = str(settings.fcm_api_url).rstrip("/")
        self._url = f"{base}/v1/projects/{quote(settings.fcm_project, safe='')}/messages:send"
        self._provider = provider
        self._tokens = tokens

    async def send(self, delivery: Delivery) -> SendOutcome:
        payload = _payload(delivery)
        answer = await self._post(payload)
        if isinstance(answer, httpx.Response) and _refuses_token(answer):
            # A token may be revoked before its time. A new one tells whether it was the token or the account.
            answer = await self._post(payload)
        if isinstance(answer, ProviderDown):
            return answer
        body = read_object(answer)
        if answer.is_success:
            return Sent(str(body.get("name") or "") or None)
        code = _error_code(body)
        said = body.get("error", {}).get("message") if isinstance(body.get("error"), dict) else None
        return judge_answer(RULES, answer, code, f"{code}: {said}" if said else "")

    async def _post(self, payload: Mapping[str, Any]) -> httpx.Response | ProviderDown:
        token = await self._tokens.get()
        if not isinstance(token, str):
            return token
        answer = await self._provider.post(self._url, json=payload, headers={"Authorization": f"Bearer {token}"})
        if isinstance(answer, httpx.Response) and _refuses_token(answer):
            self._tokens.forget(token)
        return answer


def _payload(delivery: Delivery) -> dict[str, Any]:
    message = PushMessage.model_validate(delivery.message)
    return {
        "message": {
            "token": delivery.recipient,
            "notification": {"title": message.title, "body": message.body},
            "data": {**message.data, "channelSendId": delivery.key},
            # FCM knows no idempotency key; the device does: a repeated message replaces the first on the screen.
            "android": {"priority": "HIGH", "notification": {"tag": delivery.key}},
            "apns": {"headers": {"apns-collapse-id": delivery.key, "apns-priority": "10"}},
        }
    }


def _refuses_token(answer: httpx.Response) -> bool:
    """Our access token. THIRD_PARTY_AUTH_ERROR is a 401 too, and about the keys that FCM has for APNs and Web Push."""
    return answer.status_code == 401 and _error_code(read_object(answer)) is None


def _error_code(body: Mapping[str, Any]) -> str | None:
    """FCM's own code, from the details of Google's error; None when somebody before FCM answered."""
    error = body.get("error")
    if not isinstance(error, dict):
        return None
    details = [detail for detail in _list(error.get("details")) if isinstance(detail, dict)]
    codes = [str(detail["errorCode"]) for detail in details if "errorCode" in detail]
    fields = [
        violation.get("field")
        for detail in details
        for violation in _list(detail.get("fieldViolations"))
        if isinstance(violation, dict)
    ]
    about_token = "message.token" in fields or (not fields and "registration token" in str(error.get("message")))
    if about_token and (error.get("status") == "INVALID_ARGUMENT" or "INVALID_ARGUMENT" in codes):
        return INVALID_ADDRESS
    return next(iter(codes), None)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


@asynccontextmanager
async def open_push(settings: PushSettings, timeout: float) -> AsyncIterator[PushSender]:  # noqa: ASYNC109
    account = ServiceAccount.read(settings.fcm_credentials_file)
    async with open_http(timeout) as provider:
        yield PushSender(provider, AccessTokens(account, provider), settings)


PUSH = ChannelSpec(Channel.PUSH, PushSettings, open_push)
