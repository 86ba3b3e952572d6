"""SMS by Twilio's Messages API, or one that is compatible."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from urllib.parse import quote

from pydantic import AnyHttpUrl, Field, SecretStr

from channel_dispatcher.channels.http import HttpProvider, judge_answer, open_http, read_object
from channel_dispatcher.channels.kind import ChannelSettings, Concurrency, Kind, PerSecond
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import Outcome, Sent
from channel_dispatcher.rules import Rules, Verdict
from tablebell.messages import SmsMessage
from tablebell.people import Channel

RULES = Rules(
    {
        "400 21211": Verdict.DEAD_ADDRESS,  # not a phone number
        "400 21214": Verdict.DEAD_ADDRESS,  # cannot be reached
        "400 21217": Verdict.DEAD_ADDRESS,  # does not look like a phone number
        "400 21610": Verdict.DEAD_ADDRESS,  # the person answered STOP
        "400 21614": Verdict.DEAD_ADDRESS,  # not a mobile number
        "401": Verdict.MISCONFIGURED,
        "403": Verdict.MISCONFIGURED,
        "404": Verdict.MISCONFIGURED,  # no such account
        "408": Verdict.RETRY,
        "429": Verdict.THROTTLED,
        "4xx": Verdict.REFUSED,
        "5xx": Verdict.RETRY,
    }
)


class SmsSettings(ChannelSettings):
    sms_api_url: AnyHttpUrl
    sms_account: Annotated[str, Field(min_length=1)]
    sms_token: SecretStr
    sms_from: Annotated[str, Field(min_length=1)]
    sms_concurrency: Concurrency = 16
    sms_per_second: PerSecond | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.sms_concurrency, self.sms_per_second)


class SmsSender:
    def __init__(self, provider: HttpProvider, settings: SmsSettings) -> None:
        base = str(settings.sms_api_url).rstrip("/")
        self._url = f"{base}/2010-04-01/Accounts/{quote(settings.sms_account, safe='')}/Messages.json"
        self._from = settings.sms_from
        self._provider = provider

    async def send(self, delivery: Delivery) -> Outcome:
        message = SmsMessage.model_validate(delivery.message)
        form = {"To": delivery.recipient, "From": self._from, "Body": message.text}
        answer = await self._provider.post(self._url, data=form, headers={"I-Twilio-Idempotency-Token": delivery.key})
        if isinstance(answer, Outcome):
            return answer
        body = read_object(answer)
        if answer.is_success:
            return Sent(str(body.get("sid") or "") or None)
        code, said = body.get("code"), body.get("message")
        return judge_answer(RULES, answer, code, f"{code}: {said}" if said else "")


@asynccontextmanager
async def open_sms(settings: SmsSettings, timeout: float) -> AsyncIterator[SmsSender]:  # noqa: ASYNC109
    login = (settings.sms_account, settings.sms_token.get_secret_value())
    async with open_http(timeout, auth=login) as provider:
        yield SmsSender(provider, settings)


SMS = Kind(Channel.SMS, SmsSettings, open_sms)
