"""The faults that can be switched on, and which channel knows which.

A fault strikes every time, or with a `probability`, or for the next `count` messages; `match` limits it to recipients
that contain a text, and `for_seconds` lets it end by itself.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from tablebell_sandbox.channel import Channel

# Where in the conversation a fault strikes; "data" is the message itself on every channel.
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

    def strikes_at(self, stage: Stage) -> bool:
        return stage == "data"


def _refuse_early_match(fault: SmtpFault) -> SmtpFault:
    if fault.match is not None and not (fault.strikes_at("rcpt") or fault.strikes_at("data")):
        raise ValueError("there is no recipient to match before RCPT")
    return fault


class Delay(OccasionalFault):
    """The answer comes late. The message has been taken by then, as by a provider that is slow, not down."""

    kind: Literal["delay"]
    seconds: float = Field(gt=0, le=3600)


class Drop(OccasionalFault):
    """The connection closes without an answer; with `accept` the message was taken nevertheless, the case
    that turns a careful retry into a duplicate."""

    kind: Literal["drop"]
    accept: bool = False


class Hang(OccasionalFault):
    """No answer ever comes, and the connection stays open until the client leaves."""

    kind: Literal["hang"]


class SmtpHang(Hang):
    """Silence instead of the greeting, of the answer to AUTH, MAIL or RCPT, or of the answer to the mail."""

    at: SmtpStage = "data"

    @model_validator(mode="after")
    def _no_recipient_yet(self) -> Self:
        return _refuse_early_match(self)

    def strikes_at(self, stage: Stage) -> bool:
        return stage == self.at


class Refuse(Fault):
    """Nobody listens on the channel's port, and open connections are cut. It has no count: nobody is there to count."""

    kind: Literal["refuse"]


class SmtpReply(OccasionalFault):
    kind: Literal["smtp"]
    code: int = Field(ge=400, le=599)
    at: SmtpStage | None = None
    text: str | None = Field(default=None, pattern=r"^[\x20-\x7e]+$")

    @model_validator(mode="after")
    def _no_recipient_yet(self) -> Self:
        return _refuse_early_match(self)

    def strikes_at(self, stage: Stage) -> bool:
        return stage == (self.at or ("auth" if self.code == 535 else "data"))


class HttpStatus(OccasionalFault):
    """An error in the provider's own shape. A 429 always says when to come back. With `accept` the message was taken
    nevertheless, as Twilio says of its 500."""

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
    """FCM's word for a token whose app is gone."""

    kind: Literal["unregistered"]


class TokenStatus(OccasionalFault):
    """The OAuth endpoint fails instead of the send itself."""

    kind: Literal["token"]
    status: int = Field(ge=400, le=599)

    @model_validator(mode="after")
    def _no_recipient(self) -> Self:
        if self.match is not None:
            raise ValueError("there is no recipient to match when a token is asked for")
        return self

    def strikes_at(self, stage: Stage) -> bool:
        return stage == "token"


_Kind = Field(discriminator="kind")
_FAULTS: dict[Channel, TypeAdapter[Any]] = {
    Channel.EMAIL: TypeAdapter(list[Annotated[SmtpReply | Delay | Drop | SmtpHang | Refuse, _Kind]]),
    Channel.SMS: TypeAdapter(list[Annotated[HttpStatus | InvalidNumber | Delay | Drop | Hang | Refuse, _Kind]]),
    Channel.PUSH: TypeAdapter(
        list[Annotated[HttpStatus | Unregistered | TokenStatus | Delay | Drop | Hang | Refuse, _Kind]]
    ),
    Channel.SLACK: TypeAdapter(list[Annotated[HttpStatus | Delay | Drop | Hang | Refuse, _Kind]]),
}


def parse_faults(channel: Channel, faults: Any) -> list[Fault]:
    """Raises pydantic's ValidationError for anything that the channel does not know."""
    parsed: list[Fault] = _FAULTS[channel].validate_python(faults)
    return parsed
