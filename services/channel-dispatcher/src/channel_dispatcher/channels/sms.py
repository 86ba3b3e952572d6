"""SMS by Twilio's Messages API, or a compatible one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from urllib.parse import quote

from pydantic import Field, SecretStr

from channel_dispatcher.channels.http import HttpProvider, classify_response, open_http, read_object
from channel_dispatcher.channels.spec import ChannelSettings, ChannelSpec, Concurrency, PerSecond, ProviderUrl
from channel_dispatcher.delivery import Delivery
from channel_dispatcher.error_rules import ErrorClass, Rules
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import ProviderDown, SendOutcome, Sent
from tablebell.messages import SmsMessage
from tablebell.people import Channel

# Twilio's "Error and Warning Dictionary", https://www.twilio.com/docs/api/errors: the codes that creating a message can
# return. The dictionary does not say which HTTP status a code comes with, so the code alone decides. Twilio adds codes
# from time to time: an unknown one may be about our account.
RULES = Rules(
    {
        # About this address.
        "code 21211": ErrorClass.DEAD_ADDRESS,  # Invalid 'To' Phone Number
        "code 21217": ErrorClass.DEAD_ADDRESS,  # Phone number does not appear to be valid
        "code 21265": ErrorClass.DEAD_ADDRESS,  # 'To' number cannot be a Short Code
        "code 21268": ErrorClass.DEAD_ADDRESS,  # Sending to Premium rate or Information Service numbers is not allowed
        "code 21610": ErrorClass.DEAD_ADDRESS,  # Attempt to send to unsubscribed recipient: the person answered STOP
        "code 21614": ErrorClass.DEAD_ADDRESS,  # 'To' number is not a valid mobile number
        "code 21635": ErrorClass.DEAD_ADDRESS,  # 'To' number cannot be a landline
        # About this message.
        "code 20413": ErrorClass.REFUSED,  # Request Entity Too Large
        "code 21214": ErrorClass.REFUSED,  # 'To' phone number cannot be reached: now, or from here
        "code 21266": ErrorClass.REFUSED,  # 'To' and 'From' numbers cannot be the same
        "code 21602": ErrorClass.REFUSED,  # Message body is required
        "code 21604": ErrorClass.REFUSED,  # The destination 'To' phone number is required to send an SMS
        "code 21605": ErrorClass.REFUSED,  # Maximum body length is 160 characters (old API endpoint)
        "code 21617": ErrorClass.REFUSED,  # The concatenated message body exceeds the 1600 character limit
        "code 21618": ErrorClass.REFUSED,  # The message body cannot be sent
        "code 21619": ErrorClass.REFUSED,  # A Message Body, Media URL or Content SID is required
        "code 21658": ErrorClass.REFUSED,  # Parameter exceeded character limit
        # About our account and its permissions.
        "code 10001": ErrorClass.MISCONFIGURED,  # Account is not active
        "code 20003": ErrorClass.MISCONFIGURED,  # Permission Denied: wrong account or token
        "code 20005": ErrorClass.MISCONFIGURED,  # Account not active
        "code 20006": ErrorClass.MISCONFIGURED,  # Access Denied
        "code 20008": ErrorClass.MISCONFIGURED,  # Test Credentials
        "code 20010": ErrorClass.MISCONFIGURED,  # Action disabled for account
        "code 20403": ErrorClass.MISCONFIGURED,  # 403 Forbidden
        "code 20404": ErrorClass.MISCONFIGURED,  # Not Found: no such account
        "code 21219": ErrorClass.MISCONFIGURED,  # 'To' phone number not verified (trial account)
        "code 21608": ErrorClass.MISCONFIGURED,  # The 'to' phone number provided is not yet verified for this account
        "code 21609": ErrorClass.MISCONFIGURED,  # Invalid 'StatusCallback'
        # About our sender.
        "code 21210": ErrorClass.MISCONFIGURED,  # 'From' phone number not verified
        "code 21212": ErrorClass.MISCONFIGURED,  # Invalid 'From' Number
        "code 21264": ErrorClass.MISCONFIGURED,  # 'From' phone number not verified
        "code 21267": ErrorClass.MISCONFIGURED,  # Alphanumeric Sender ID cannot be used on trial accounts
        "code 21601": ErrorClass.MISCONFIGURED,  # Phone number is not a valid SMS-capable inbound phone number
        "code 21603": ErrorClass.MISCONFIGURED,  # A 'From' or 'MessagingServiceSid' parameter is required
        "code 21606": ErrorClass.MISCONFIGURED,  # 'From' is not a valid message-capable number for this account
        "code 21607": ErrorClass.MISCONFIGURED,  # The 'from' phone number must be the sandbox phone number (trial)
        "code 21616": ErrorClass.MISCONFIGURED,  # The 'From' number matches multiple numbers for your account
        "code 21657": ErrorClass.MISCONFIGURED,  # The Sender ID is invalid
        "code 21659": ErrorClass.MISCONFIGURED,  # 'From' is not a Twilio phone number or Short Code country mismatch
        "code 21660": ErrorClass.MISCONFIGURED,  # Mismatch between the 'From' number and the account
        "code 21661": ErrorClass.MISCONFIGURED,  # 'From' number is not SMS-capable
        "code 21663": ErrorClass.MISCONFIGURED,  # 'From' phone number routing configuration is incorrect
        "code 21668": ErrorClass.MISCONFIGURED,  # Phone number type is not supported in the Ireland (IE1) region
        # About our account or sender, for some destinations only: the other messages decide.
        "code 21408": ErrorClass.MISCONFIGURED,  # Message blocked: permissions disabled for the destination region
        "code 21612": ErrorClass.MISCONFIGURED,  # cannot be sent with the current combination of "To" and/or "From"
        "code 21662": ErrorClass.MISCONFIGURED,  # the same in the Ireland region
        "code 21910": ErrorClass.MISCONFIGURED,  # 'From' and 'To' should be of the same channel
        # Temporary.
        "code 14107": ErrorClass.RETRY,  # SMS send rate limit exceeded: 30 messages between two numbers within 30 s
        "code 20429": ErrorClass.THROTTLED,  # Too many requests
        "code 20500": ErrorClass.DOWN,  # Internal Server Error
        "code 20503": ErrorClass.DOWN,  # Service unavailable
        "code 20504": ErrorClass.DOWN,  # Twilio Internal Error
        "code 21611": ErrorClass.THROTTLED,  # This 'From' number has exceeded the maximum number of queued messages
        "code 21730": ErrorClass.DOWN,  # System under maintenance. Please try again later.
        "code 60728": ErrorClass.THROTTLED,  # Account exceeded the hourly messages limit
        "code 63017": ErrorClass.THROTTLED,  # Rate limit exceeded, of the account
        "code 63038": ErrorClass.THROTTLED,  # Account exceeded the daily messages limit
        # Without a known code.
        "408": ErrorClass.DOWN,
        "413": ErrorClass.REFUSED,
        "429": ErrorClass.THROTTLED,
        "4xx": ErrorClass.MISCONFIGURED,
        "5xx": ErrorClass.DOWN,
    }
)


class SmsSettings(ChannelSettings):
    sms_api_url: ProviderUrl
    sms_account: Annotated[str, Field(min_length=1)]
    sms_token: SecretStr
    sms_from: Annotated[str, Field(min_length=1)]
    sms_concurrency: Concurrency = 16
    sms_per_second: PerSecond | None = None
    sms_per_day: Annotated[int, Field(ge=0)] = 50_000

    @property
    def limits(self) -> Limits:
        return Limits(self.sms_concurrency, self.sms_per_second, self.sms_per_day)


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
