"""The parts of a channel: its settings, its sender, and the function that opens the sender."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, AnyHttpUrl, Field, ValidationInfo

from channel_dispatcher.delivery import Delivery
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import SendOutcome
from tablebell.people import Channel
from tablebell.settings import FrozenSettings, is_confidential

Concurrency = Annotated[int, Field(ge=1, le=1000)]
PerSecond = Annotated[float, Field(gt=0, le=100_000)]


def check_encrypted(url: str, info: ValidationInfo) -> None:
    """For validators of a provider's URL, to which credentials are sent."""
    if not is_confidential(url) and not info.data.get("allow_cleartext_credentials"):
        raise ValueError("should be https://, unless ALLOW_CLEARTEXT_CREDENTIALS is true: credentials are sent there")


def _check_provider_url(url: AnyHttpUrl, info: ValidationInfo) -> AnyHttpUrl:
    check_encrypted(str(url), info)
    return url


ProviderUrl = Annotated[AnyHttpUrl, AfterValidator(_check_provider_url)]


class Sender(Protocol):
    """Sends a message to the provider and returns the outcome. Never raises because of a provider's behaviour."""

    async def send(self, delivery: Delivery) -> SendOutcome: ...


class ChannelSettings(FrozenSettings):
    """A channel's own variables. The service does not start if one is missing, unless the channel is disabled."""

    allow_cleartext_credentials: bool = False
    """Send logins and tokens without encryption to hosts other than this one: for a sandbox on a network of its own."""

    @property
    def limits(self) -> Limits:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    channel: Channel
    settings: type[ChannelSettings]
    open: Callable[[Any, float], AbstractAsyncContextManager[Sender]]
    """Takes the settings and the provider timeout in seconds."""
    shared_address: bool = False
    """All messages go to one address."""
