"""SMS by Twilio's Messages API, or a compatible one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from urllib.parse import quote

from pydantic import AnyHttpUrl, Field, SecretStr

from channel_dispatcher.channels.http import HttpProvider, classify_response, open_http, read_object
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec, Concurrency, PerSecond
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.error_rules import ErrorClass, Rules
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent
from tablebell.messages import SmsMessage
from tablebell.people import Channel

# https://www.twilio.com/docs/api/errors. Twilio adds codes from time to time: an unknown one may be about our account.
RULES = Rules(
    {
        # About this address.
        "400 21211": ErrorClass.DEAD_ADDRESS,  # Invalid 'To' Phone Number
        "400 21214": ErrorClass.DEAD_ADDRESS,  # 'To' phone number cannot be reached
        "400 21217": ErrorClass.DEAD_ADDRESS,  # Phone number does not appear to be valid
        "400 21265": ErrorClass.DEAD_ADDRESS,  # 'To' number cannot be a Short Code
        "400 21610": ErrorClass.DEAD_ADDRESS,  # Attempt to send to unsubscribed recipient: the person answered STOP
        "400 21614": ErrorClass.DEAD_ADDRESS,  # 'To' number is not a valid mobile number
        "400 21635": ErrorClass.DEAD_ADDRESS,  # 'To' number cannot be a landline
        # About this message.
        "400 21266": ErrorClass.REFUSED,  # 'To' and 'From' numbers cannot be the same
        "400 21602": ErrorClass.REFUSED,  # Message body is required
        "400 21604": ErrorClass.REFUSED,  # 'To' phone number is required
        "400 21605": ErrorClass.REFUSED,  # Maximum body length exceeded
        "400 21617": ErrorClass.REFUSED,  # The concatenated message body exceeds the 1600 character limit
        "400 21618": ErrorClass.REFUSED,  # The message body cannot be sent
        "400 21619": ErrorClass.REFUSED,  # A text message body or media urls must be specified
        # About our sender, account or permissions; 21408 and 21612 for some destinations only.
        "400 21212": ErrorClass.MISCONFIGURED,  # Invalid 'From' Number
        "400 21408": ErrorClass.MISCONFIGURED,  # Permission to send an SMS has not been enabled for the region
        "400 21601": ErrorClass.MISCONFIGURED,  # Phone number is not a valid SMS-capable inbound phone number
        "400 21603": ErrorClass.MISCONFIGURED,  # 'From' phone number is required
        "400 21606": ErrorClass.MISCONFIGURED,  # 'From' is not a message-capable number for this destination/account
        "400 21608": ErrorClass.MISCONFIGURED,  # The 'to' phone number is not yet verified for this (trial) account
        "400 21612": ErrorClass.MISCONFIGURED,  # cannot be sent with the current combination of 'To' and/or 'From'
        "400 21659": ErrorClass.MISCONFIGURED,  # 'From' is not a Twilio phone number or Short Code country mismatch
        "400": ErrorClass.MISCONFIGURED,
        "401": ErrorClass.MISCONFIGURED,  # 20003 Authenticate
        "403": ErrorClass.MISCONFIGURED,  # 20403 Forbidden, 20005 Account not active
        "404": ErrorClass.MISCONFIGURED,  # 20404 Not found: no such account
        # Temporary.
        "400 21611": ErrorClass.THROTTLED,  # This 'From' number has exceeded the maximum number of queued messages
        "400 21730": ErrorClass.DOWN,  # System under maintenance. Please try again later.
        "408": ErrorClass.DOWN,
        "429": ErrorClass.THROTTLED,  # 20429 Too Many Requests; 63038 Account exceeded the daily messages limit
        "4xx": ErrorClass.MISCONFIGURED,
        "5xx": ErrorClass.DOWN,  # 20500 Internal Server Error, 20503 Service unavailable
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

    async def send(self, delivery: Delivery) -> SendOutcome:
        message = SmsMessage.model_validate(delivery.message)
        form = {"To": delivery.recipient, "From": self._from, "Body": message.text}
        # Twilio has no idempotency key. The header is for the logs of a gateway.
        response = await self._provider.post(self._url, data=form, headers={"X-Channel-Send-Id": delivery.key})
        if isinstance(response, ProviderDown):
            return response
        body = read_object(response)
        if response.is_success:
            return Sent(str(body.get("sid") or "") or None)
        code, text = body.get("code"), body.get("message")
        return classify_response(RULES, response, code, f"{code}: {text}" if text else "")


@asynccontextmanager
async def open_sms(settings: SmsSettings, timeout: float) -> AsyncIterator[SmsSender]:  # noqa: ASYNC109
    login = (settings.sms_account, settings.sms_token.get_secret_value())
    async with open_http(timeout, auth=login) as provider:
        yield SmsSender(provider, settings)


SMS = ChannelSpec(Channel.SMS, SmsSettings, open_sms)
