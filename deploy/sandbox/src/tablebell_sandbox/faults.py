"""The kinds of faults, and the kinds that each channel supports.

A fault applies always, or with a `probability`, or to the next `count` messages. `match` limits it to recipients that
contain a text, and `for_seconds` limits its duration.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from tablebell_sandbox.channel import Channel

# The stage at which a fault applies; "data" is the message itself, on every channel.
Stage = Literal["connect", "auth", "mail", "rcpt", "data", "token"]
SmtpStage = Literal["connect", "auth", "mail", "rcpt", "data"]


class Fault(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    for_seconds: float | None = Field(default=None, gt=0)


SmtpFault = TypeVar("SmtpFault", bound="OccasionalFault")


class OccasionalFault(Fault):
    probability: float | None = Field(default=None, ge=0, le=1)
    count: int | None = Field(default=None, ge=1)
    match: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        if self.probability is not None and self.count is not None:
            raise ValueError("give either probability or count, not both")
        return self

    def applies_at(self, stage: Stage) -> bool:
        return stage == "data"


def _reject_early_match(fault: SmtpFault) -> SmtpFault:
    if fault.match is not None and not (fault.applies_at("rcpt") or fault.applies_at("data")):
        raise ValueError("there is no recipient to match before RCPT")
    return fault


class Delay(OccasionalFault):
    """A late response. The message is accepted before the delay, as by a slow provider."""

    kind: Literal["delay"]
    seconds: float = Field(gt=0, le=3600)


class Drop(OccasionalFault):
    """Closes the connection without a response. With `accept` the message is accepted first, so that a retry makes a
    duplicate."""

    kind: Literal["drop"]
    accept: bool = False


class Hang(OccasionalFault):
    """Never responds; the connection stays open until the client disconnects."""

    kind: Literal["hang"]


class SmtpHang(Hang):
    """Never replies at one stage: the greeting, AUTH, MAIL, RCPT or the mail."""

    at: SmtpStage = "data"

    @model_validator(mode="after")
    def _no_recipient_yet(self) -> Self:
        return _reject_early_match(self)

    def applies_at(self, stage: Stage) -> bool:
        return stage == self.at


class Refuse(Fault):
    """The channel's port refuses connections, and open ones are closed. It has no count: no message arrives."""

    kind: Literal["refuse"]


class SmtpReply(OccasionalFault):
    kind: Literal["smtp"]
    code: int = Field(ge=400, le=599)
    at: SmtpStage | None = None
    text: str | None = Field(default=None, pattern=r"^[\x20-\x7e]+$")

    @model_validator(mode="after")
    def _no_recipient_yet(self) -> Self:
        return _reject_early_match(self)

    def applies_at(self, stage: Stage) -> bool:
        return stage == (self.at or ("auth" if self.code == 535 else "data"))


class HttpStatus(OccasionalFault):
    """An error in the provider's own format. A 429 always has a Retry-After. With `accept` the message is accepted
    nevertheless, as Twilio documents for its 500."""

    kind: Literal["http"]
    status: int = Field(ge=400, le=599)
    code: str | None = Field(default=None, min_length=1)
    """The provider's own code besides the status: 21612, SENDER_ID_MISMATCH, no_service."""
    retry_after: int | None = Field(default=None, ge=0)
    accept: bool = False

    @property
    def headers(self) -> dict[str, str]:
        seconds = 1 if self.retry_after is None and self.status == 429 else self.retry_after
        return {} if seconds is None else {"Retry-After": str(seconds)}


class InvalidNumber(OccasionalFault):
    """Twilio's 21211."""

    kind: Literal["invalid_number"]


class Unregistered(OccasionalFault):
    """FCM's UNREGISTERED: the app is no longer on that device."""

    kind: Literal["unregistered"]


class TokenStatus(OccasionalFault):
    """The OAuth endpoint fails instead of the send."""

    kind: Literal["token"]
    status: int = Field(ge=400, le=599)

    @model_validator(mode="after")
    def _no_recipient(self) -> Self:
        if self.match is not None:
            raise ValueError("there is no recipient to match in a token request")
        return self

    def applies_at(self, stage: Stage) -> bool:
        return stage == "token"


_Kind = Field(discriminator="kind")
_FAULTS: dict[Channel, TypeAdapter[Any]] = {
    Channel.EMAIL: TypeAdapter(list[Annotated[SmtpReply | Delay | Drop | SmtpHang | Refuse, _Kind]]),
    Channel.SMS: TypeAdapter(list[Annotated[HttpStatus | InvalidNumber | Delay | Drop | Hang | Refuse, _Kind]]),
    Channel.PUSH: TypeAdapter(
        list[Annotated[HttpStatus | Unregistered | TokenStatus | Delay | Drop | Hang | Refuse, _Kind]]
    ),
}
_HTTP_FAULTS: TypeAdapter[Any] = TypeAdapter(list[Annotated[HttpStatus | Delay | Drop | Hang | Refuse, _Kind]])


def parse_faults(channel: Channel, faults: Any) -> list[Fault]:
    """Raises pydantic's ValidationError for a fault that the channel does not support."""
    parsed: list[Fault] = _FAULTS.get(channel, _HTTP_FAULTS).validate_python(faults)
    return parsed
