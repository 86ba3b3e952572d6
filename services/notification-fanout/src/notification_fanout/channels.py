"""Plans the channels of a notification for one recipient. Pure.

Every durable channel of the recipient gets a Send or a Skip, so that each missing message has a stored reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tablebell.people import DEFAULT_CHANNELS, DURABLE_CHANNELS, Channel, UserType

# Slack has one address for everyone: the webhook is a setting of the dispatcher.
SLACK_ADDRESS = "#ops"
# Channels that observe quiet hours.
DISTURBING = frozenset({Channel.SMS, Channel.PUSH})
CLOCK_TICK = timedelta(seconds=1)
ADDRESS_NAMES = {Channel.EMAIL: "e-mail address", Channel.SMS: "telephone number", Channel.PUSH: "device"}


@dataclass(frozen=True, slots=True)
class UndeliverableAddress:
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person's addresses and preferences."""

    user_type: UserType
    timezone: str
    addresses: Mapping[Channel, str | None]
    channels: Mapping[str, bool] = field(default_factory=dict)
    event_types: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    quiet_from: time | None = None
    quiet_until: time | None = None
    undeliverable: Mapping[Channel, UndeliverableAddress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeliveryContext:
    """The properties of an event that the choice of channels depends on."""

    event_type: str
    allowed: frozenset[Channel]
    now: datetime
    not_after: datetime
    urgent: bool


@dataclass(frozen=True, slots=True)
class Send:
    channel: Channel
    address: str
    not_before: datetime


@dataclass(frozen=True, slots=True)
class Skip:
    channel: Channel
    address: str | None
    reason: str


def plan(recipient: Recipient, context: DeliveryContext) -> list[Send | Skip]:
    """One decision for each durable channel that the recipient has by default or by preference."""
    return [
        _decide(recipient, context, channel)
        for channel in DURABLE_CHANNELS
        if channel in context.allowed and _has_channel(recipient, context.event_type, channel)
    ]


def wants_live(recipient: Recipient, event_type: str) -> bool:
    return _preference(recipient, event_type, Channel.WEBSOCKET) is not False


def _has_channel(recipient: Recipient, event_type: str, channel: Channel) -> bool:
    if channel in DEFAULT_CHANNELS[recipient.user_type]:
        return True
    # Slack is internal: no preference adds it.
    return channel is not Channel.SLACK and _preference(recipient, event_type, channel) is True


def _preference(recipient: Recipient, event_type: str, channel: Channel) -> bool | None:
    """The preference for this event type, or else for the channel; None without one."""
    for preferences in (recipient.event_types.get(event_type), recipient.channels):
        if preferences is not None and isinstance(preference := preferences.get(channel), bool):
            return preference
    return None


def _decide(recipient: Recipient, context: DeliveryContext, channel: Channel) -> Send | Skip:
    address = SLACK_ADDRESS if channel is Channel.SLACK else recipient.addresses.get(channel) or None
    if _preference(recipient, context.event_type, channel) is False:
        return Skip(channel, address, f"{channel} is switched off for {context.event_type} in the preferences")
    if address is None:
        return Skip(channel, None, f"no {ADDRESS_NAMES[channel]}")
    undeliverable = recipient.undeliverable.get(channel)
    if undeliverable is not None and undeliverable.address == address:
        return Skip(channel, address, f"the address is undeliverable: {undeliverable.reason}")
    not_before = _not_before(recipient, context) if channel in DISTURBING else context.now
    if not_before >= context.not_after:
        why = "quiet hours last too long" if not_before > context.now else "too late"
        return Skip(channel, address, f"{why}: of no use after {context.not_after.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    return Send(channel, address, not_before)


def _not_before(recipient: Recipient, context: DeliveryContext) -> datetime:
    if context.urgent or recipient.quiet_from is None or recipient.quiet_until is None:
        return context.now
    zone = _zone(recipient.timezone)
    return quiet_end(context.now, recipient.quiet_from, recipient.quiet_until, zone) or context.now


def quiet_end(now: datetime, quiet_from: time, quiet_until: time, zone: tzinfo) -> datetime | None:
    """The end of the current quiet hours, which may span midnight; None outside quiet hours.

    The end is the next instant at which the clock in `zone` shows `quiet_until`. If a clock change repeats that time,
    the first future instant counts. If a clock change skips it, the quiet hours end at the change.
    """

    def is_quiet(clock: time) -> bool:
        if quiet_from <= quiet_until:
            return quiet_from <= clock < quiet_until
        return clock >= quiet_from or clock < quiet_until

    local = now.astimezone(zone)
    if not is_quiet(local.time()):
        return None
    # A clock change may repeat a part of the day before, or skip a whole day.
    walls = [datetime.combine(local.date() + timedelta(days=days), quiet_until) for days in range(-1, 3)]
    ends = [_instant(wall.replace(fold=fold), zone) for wall in walls for fold in (0, 1)]
    end = min(end for end in ends if end > now and not is_quiet(end.astimezone(zone).time()))
    return end.astimezone(now.tzinfo)


def _instant(wall: datetime, zone: tzinfo) -> datetime:
    """The instant at which the clock in `zone` shows `wall`, or the clock change that skips it."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    # Bisect: fold=1 uses the offset after the change and lies before it, fold=0 lies after it.
    before, after = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (1, 0))
    offset = after.astimezone(zone).utcoffset()
    while after - before > CLOCK_TICK:
        middle = before + (after - before) // 2 // CLOCK_TICK * CLOCK_TICK
        if middle.astimezone(zone).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("Europe/Rome")
