"""By which channels a person is told, when, and if not, why not. Pure.

Every channel that a person has by default gets an answer, so that "why did nobody tell me?" is a query: the address and
the time from which it may be sent, or the reason why it is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tablebell.people import DEFAULT_CHANNELS, DURABLE_CHANNELS, Channel, UserType

# Slack is one channel for all: the webhook behind it is a setting of the dispatcher.
SLACK_RECIPIENT = "#ops"
DISTURBING = frozenset({Channel.SMS, Channel.PUSH})
CLOCK_TICK = timedelta(seconds=1)
ADDRESS_NAMES = {Channel.EMAIL: "e-mail address", Channel.SMS: "telephone number", Channel.PUSH: "device"}


@dataclass(frozen=True, slots=True)
class UndeliverableAddress:
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reader:
    """A person as far as being told is concerned."""

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
    """What is to be told, as far as the choice of channels depends on it."""

    event_type: str
    allowed: frozenset[Channel]
    now: datetime
    not_after: datetime
    urgent: bool


@dataclass(frozen=True, slots=True)
class Send:
    channel: Channel
    recipient: str
    not_before: datetime


@dataclass(frozen=True, slots=True)
class Skip:
    channel: Channel
    recipient: str | None
    reason: str


def plan(reader: Reader, occasion: DeliveryContext) -> list[Send | Skip]:
    """One answer for each durable channel that this person has, or asked for."""
    return [
        _answer(reader, occasion, channel)
        for channel in DURABLE_CHANNELS
        if channel in occasion.allowed and _is_theirs(reader, occasion.event_type, channel)
    ]


def wants_live(reader: Reader, event_type: str) -> bool:
    return _wish(reader, event_type, Channel.WEBSOCKET) is not False


def _is_theirs(reader: Reader, event_type: str, channel: Channel) -> bool:
    if channel in DEFAULT_CHANNELS[reader.user_type]:
        return True
    # Whoever has no Slack by default must not write into it.
    return channel is not Channel.SLACK and _wish(reader, event_type, channel) is True


def _wish(reader: Reader, event_type: str, channel: Channel) -> bool | None:
    """What the person decided for this event or else for the channel; None where they left it to us."""
    for wishes in (reader.event_types.get(event_type), reader.channels):
        if wishes is not None and isinstance(wish := wishes.get(channel), bool):
            return wish
    return None


def _answer(reader: Reader, occasion: DeliveryContext, channel: Channel) -> Send | Skip:
    address = SLACK_RECIPIENT if channel is Channel.SLACK else reader.addresses.get(channel) or None
    if _wish(reader, occasion.event_type, channel) is False:
        return Skip(channel, address, f"{channel} is switched off for {occasion.event_type} in the preferences")
    if address is None:
        return Skip(channel, None, f"no {ADDRESS_NAMES[channel]}")
    known = reader.undeliverable.get(channel)
    if known is not None and known.address == address:
        return Skip(channel, address, f"the address is undeliverable: {known.reason}")
    not_before = _not_before(reader, occasion) if channel in DISTURBING else occasion.now
    if not_before >= occasion.not_after:
        why = "quiet hours last too long" if not_before > occasion.now else "too late"
        return Skip(channel, address, f"{why}: of no use after {occasion.not_after.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
    return Send(channel, address, not_before)


def _not_before(reader: Reader, occasion: DeliveryContext) -> datetime:
    if occasion.urgent or reader.quiet_from is None or reader.quiet_until is None:
        return occasion.now
    return quiet_end(occasion.now, reader.quiet_from, reader.quiet_until, _zone(reader.timezone)) or occasion.now


def quiet_end(now: datetime, quiet_from: time, quiet_until: time, zone: tzinfo) -> datetime | None:
    """When the quiet hours that last now are over; None when it is not quiet. They may span midnight.

    The end is the next moment at which the clock in `zone` shows `quiet_until`. When the clocks are put back, the clock
    may show it twice: the first one that lies in the future counts. When they are put forward past it, the quiet hours
    end at the change.
    """

    def is_quiet(clock: time) -> bool:
        if quiet_from <= quiet_until:
            return quiet_from <= clock < quiet_until
        return clock >= quiet_from or clock < quiet_until

    local = now.astimezone(zone)
    if not is_quiet(local.time()):
        return None
    # A change of the clocks at midnight may repeat a part of the day before, or leave out a whole day.
    walls = [datetime.combine(local.date() + timedelta(days=days), quiet_until) for days in range(-1, 3)]
    ends = [_moment(wall.replace(fold=fold), zone) for wall in walls for fold in (0, 1)]
    end = min(end for end in ends if end > now and not is_quiet(end.astimezone(zone).time()))
    return end.astimezone(now.tzinfo)


def _moment(wall: datetime, zone: tzinfo) -> datetime:
    """The moment at which the clock in `zone` shows `wall`, or the change of the clocks that leaves it out."""
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == wall:
        return moment
    # By the offset after the change (fold=1) the moment lies before the change, by the offset before it (fold=0) after.
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
