"""Slack by an incoming webhook."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import AnyHttpUrl, SecretStr, TypeAdapter, ValidationInfo, field_validator

from channel_dispatcher.channels.http import HttpProvider, classify_response, open_http
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec, Concurrency, PerSecond, check_encrypted
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.error_rules import ErrorClass, Rules
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent
from tablebell.messages import SlackMessage
from tablebell.people import Channel

# The webhook is our setting, not an address: an error of the webhook or its channel is a misconfiguration.
# https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, "Handling errors"
RULES = Rules(
    {
        "400 invalid_payload": ErrorClass.REFUSED,
        "400 invalid_blocks": ErrorClass.REFUSED,
        "400 no_text": ErrorClass.REFUSED,
        "400 too_many_attachments": ErrorClass.REFUSED,
        "400 user_not_found": ErrorClass.MISCONFIGURED,
        "400 no_team": ErrorClass.MISCONFIGURED,
        "400 team_disabled": ErrorClass.MISCONFIGURED,
        "400": ErrorClass.REFUSED,
        "401": ErrorClass.MISCONFIGURED,
        "403": ErrorClass.MISCONFIGURED,  # action_prohibited, invalid_token, posting_to_general_channel_denied
        "404": ErrorClass.MISCONFIGURED,  # channel_not_found, no_active_hooks, no_service, no_service_id, no_team
        "408": ErrorClass.DOWN,
        "410": ErrorClass.MISCONFIGURED,  # channel_is_archived
        "413": ErrorClass.REFUSED,
        "429": ErrorClass.THROTTLED,  # rate_limited, with Retry-After
        "4xx": ErrorClass.MISCONFIGURED,
        "5xx": ErrorClass.DOWN,  # rollup_error, server_error
    }
)
LONGEST_CODE = 60


class SlackSettings(ChannelSettings):
    slack_webhook_url: SecretStr  # a secret: anyone with the URL can post
    slack_concurrency: Concurrency = 4
    slack_per_second: PerSecond | None = None

    @field_validator("slack_webhook_url")
    @classmethod
    def _check(cls, url: SecretStr, info: ValidationInfo) -> SecretStr:
        TypeAdapter(AnyHttpUrl).validate_python(url.get_secret_value())
        check_encrypted(url.get_secret_value(), info)
        return url

    @property
    def limits(self) -> Limits:
        return Limits(self.slack_concurrency, self.slack_per_second)


class SlackSender:
    def __init__(self, provider: HttpProvider, url: str) -> None:
        self._provider = provider
        self._url = url

    async def send(self, delivery: Delivery) -> SendOutcome:
        message = SlackMessage.model_validate(delivery.message)
        # Notifications of two people may have the same text: the id distinguishes them from a duplicate.
        metadata = {"event_type": "tablebell_notification", "event_payload": {"channelSendId": delivery.key}}
        response = await self._provider.post(self._url, json={"text": message.text, "metadata": metadata})
        if isinstance(response, ProviderDown):
            return response
        return (
            Sent() if response.is_success else classify_response(RULES, response, response.text.strip()[:LONGEST_CODE])
        )


@asynccontextmanager
async def open_slack(settings: SlackSettings, timeout: float) -> AsyncIterator[SlackSender]:  # noqa: ASYNC109
    async with open_http(timeout) as provider:
        yield SlackSender(provider, settings.slack_webhook_url.get_secret_value())


SLACK = ChannelSpec(Channel.SLACK, SlackSettings, open_slack, shared_address=True)
