"""Push notifications by Firebase Cloud Messaging, HTTP v1."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from pydantic import AfterValidator, Field, FilePath, ValidationInfo

from channel_dispatcher.channels.google_oauth import AccessTokens, ServiceAccount
from channel_dispatcher.channels.http import HttpProvider, classify_response, open_http, read_object
from channel_dispatcher.channels.spec import (
    ChannelSettings,
    ChannelSpec,
    Concurrency,
    PerSecond,
    ProviderUrl,
    check_encrypted,
)
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.error_rules import ErrorClass, Rules
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent
from tablebell.messages import PushMessage
from tablebell.people import Channel

# Our own code for INVALID_ARGUMENT at message.token: FCM has none.
INVALID_ADDRESS = "INVALID_ADDRESS"
# https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode. Without such a code FCM did not answer itself.
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


def _check_account(path: Path, info: ValidationInfo) -> Path:
    account = ServiceAccount.read(path)
    try:
        check_encrypted(account.token_uri, info)
    except ValueError as error:
        raise ValueError(f"its token_uri {error}") from error
    return path


class PushSettings(ChannelSettings):
    fcm_api_url: ProviderUrl
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
        response = await self._post(payload)
        if isinstance(response, httpx.Response) and _rejects_token(response):
            # A token may be revoked before it expires. A new one shows whether the token or the account is the cause.
            response = await self._post(payload)
        if isinstance(response, ProviderDown):
            return response
        body = read_object(response)
        if response.is_success:
            return Sent(str(body.get("name") or "") or None)
        code = _error_code(body)
        text = body.get("error", {}).get("message") if isinstance(body.get("error"), dict) else None
        return classify_response(RULES, response, code, f"{code}: {text}" if text else "")

    async def _post(self, payload: Mapping[str, Any]) -> httpx.Response | ProviderDown:
        token = await self._tokens.get()
        if not isinstance(token, str):
            return token
        response = await self._provider.post(self._url, json=payload, headers={"Authorization": f"Bearer {token}"})
        if isinstance(response, httpx.Response) and _rejects_token(response):
            self._tokens.forget(token)
        return response


def _payload(delivery: Delivery) -> dict[str, Any]:
    message = PushMessage.model_validate(delivery.message)
    return {
        "message": {
            "token": delivery.recipient,
            "notification": {"title": message.title, "body": message.body},
            "data": {**message.data, "channelSendId": delivery.key},
            # FCM has no idempotency key, but on the device a repeated message replaces the first.
            "android": {"priority": "HIGH", "notification": {"tag": delivery.key}},
            "apns": {"headers": {"apns-collapse-id": delivery.key, "apns-priority": "10"}},
        }
    }


def _rejects_token(response: httpx.Response) -> bool:
    """Our access token is rejected. THIRD_PARTY_AUTH_ERROR, also a 401, is about the keys for APNs and Web Push."""
    return response.status_code == 401 and _error_code(read_object(response)) is None


def _error_code(body: Mapping[str, Any]) -> str | None:
    """FCM's own code, from the details of Google's error; None if FCM did not answer itself."""
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
