"""The parts of a channel: its settings, its sender, and the function that opens the sender."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field

from channel_dispatcher.delivery import Delivery
from channel_dispatcher.limits import Limits
from channel_dispatcher.outcome import SendOutcome
from tablebell.people import Channel
from tablebell.settings import FrozenSettings

Concurrency = Annotated[int, Field(ge=1, le=1000)]
PerSecond = Annotated[float, Field(gt=0, le=100_000)]


class Sender(Protocol):
    """Sends a message to the provider and returns the outcome. Never raises because of a provider's behaviour."""

    async def send(self, delivery: Delivery) -> SendOutcome: ...


class ChannelSettings(FrozenSettings):
    """A channel's own variables. The service does not start if one is missing, unless the channel is disabled."""

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
