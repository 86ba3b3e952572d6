"""The planned channels of a recipient, their times and the reasons for skipping."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from notification_fanout.channels import (
    DeliveryContext,
    Recipient,
    Send,
    Skip,
    UndeliverableAddress,
    plan,
    quiet_end,
    wants_live,
)
from tablebell.audience import channels_for
from tablebell.events import EventType
from tablebell.people import Channel, UserType

NOW = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)  # 23:30 in Rome
RECIPIENT = Recipient(
    user_type=UserType.RESTAURANT_USER,
    timezone="Europe/Rome",
    addresses={Channel.EMAIL: "g@porto.example", Channel.SMS: "+39333", Channel.PUSH: "token"},
)
CONTEXT = DeliveryContext(
    event_type="RESERVATION_CHANGED",
    allowed=channels_for(EventType.RESERVATION_CHANGED),
    now=NOW,
    not_after=NOW + timedelta(days=1),
    urgent=False,
)
QUIET_RECIPIENT = replace(RECIPIENT, quiet_from=time(22), quiet_until=time(8))
MORNING = datetime(2026, 11, 17, 7, 0, tzinfo=UTC)


def by_channel(recipient: Recipient, context: DeliveryContext = CONTEXT) -> dict[Channel, Send | Skip]:
    return {decision.channel: decision for decision in plan(recipient, context)}


def test_staff_get_email_sms_and_push_at_once() -> None:
    assert plan(RECIPIENT, CONTEXT) == [
        Send(Channel.EMAIL, "g@porto.example", NOW),
        Send(Channel.SMS, "+39333", NOW),
        Send(Channel.PUSH, "token", NOW),
    ]


@pytest.mark.parametrize(
    ("user_type", "channels"),
    [
        (UserType.CUSTOMER, [Channel.EMAIL, Channel.SMS, Channel.PUSH]),
        (UserType.ADMIN_USER, [Channel.EMAIL, Channel.SLACK]),
        (UserType.AGENCY_USER, [Channel.EMAIL]),
    ],
)
def test_other_user_types_have_the_channels_of_the_contract(user_type: UserType, channels: list[Channel]) -> None:
    assert list(by_channel(replace(RECIPIENT, user_type=user_type))) == channels


def test_a_channel_switched_off_by_preference_is_skipped_with_the_reason() -> None:
    sms = by_channel(replace(RECIPIENT, channels={"SMS": False}))[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "switched off" in sms.reason


def test_the_preference_for_an_event_type_overrides_that_for_the_channel() -> None:
    recipient = replace(
        RECIPIENT,
        channels={"SMS": False, "EMAIL": True},
        event_types={"RESERVATION_CHANGED": {"SMS": True, "EMAIL": False}},
    )
    decisions = by_channel(recipient)
    assert isinstance(decisions[Channel.SMS], Send)
    assert isinstance(decisions[Channel.EMAIL], Skip)


def test_a_preference_adds_any_channel_except_slack() -> None:
    agency = replace(RECIPIENT, user_type=UserType.AGENCY_USER, channels={"SMS": True, "SLACK": True})
    assert list(by_channel(agency)) == [Channel.EMAIL, Channel.SMS]


def test_a_channel_without_an_address_is_skipped() -> None:
    recipient = replace(RECIPIENT, addresses={Channel.EMAIL: None, Channel.SMS: "", Channel.PUSH: "token"})
    decisions = by_channel(recipient)
    assert decisions[Channel.EMAIL] == Skip(Channel.EMAIL, None, "no e-mail address")
    assert decisions[Channel.SMS] == Skip(Channel.SMS, None, "no telephone number")


def test_an_undeliverable_address_is_skipped_until_it_changes() -> None:
    recipient = replace(RECIPIENT, undeliverable={Channel.SMS: UndeliverableAddress("+39333", "unsubscribed")})
    sms = by_channel(recipient)[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "unsubscribed" in sms.reason
    changed = replace(recipient, undeliverable={Channel.SMS: UndeliverableAddress("+39000", "unsubscribed")})
    assert isinstance(by_channel(changed)[Channel.SMS], Send)


def test_sms_and_push_wait_for_the_end_of_quiet_hours_and_email_does_not() -> None:
    decisions = by_channel(QUIET_RECIPIENT)
    assert decisions[Channel.EMAIL] == Send(Channel.EMAIL, "g@porto.example", NOW)
    assert decisions[Channel.SMS] == Send(Channel.SMS, "+39333", MORNING)
    assert decisions[Channel.PUSH] == Send(Channel.PUSH, "token", MORNING)


def test_an_urgent_event_ignores_quiet_hours() -> None:
    decisions = by_channel(QUIET_RECIPIENT, replace(CONTEXT, urgent=True))
    assert decisions[Channel.SMS] == Send(Channel.SMS, "+39333", NOW)


def test_a_send_that_expires_during_quiet_hours_is_skipped() -> None:
    sms = by_channel(QUIET_RECIPIENT, replace(CONTEXT, not_after=MORNING))[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "quiet hours" in sms.reason


def test_an_expired_notification_is_skipped_on_every_channel() -> None:
    assert all(isinstance(decision, Skip) for decision in plan(RECIPIENT, replace(CONTEXT, not_after=NOW)))


def test_a_visit_ended_is_sent_by_email_only() -> None:
    visit_ended = EventType.RESERVATION_VISIT_ENDED
    context = replace(CONTEXT, event_type=visit_ended, allowed=channels_for(visit_ended))
    assert list(by_channel(replace(RECIPIENT, user_type=UserType.CUSTOMER), context)) == [Channel.EMAIL]


def test_the_live_channel_can_be_switched_off() -> None:
    assert wants_live(RECIPIENT, "RESERVATION_CHANGED")
    assert not wants_live(replace(RECIPIENT, channels={"WEBSOCKET": False}), "RESERVATION_CHANGED")


ROME = ZoneInfo("Europe/Rome")


@pytest.mark.parametrize(
    ("now", "begin", "end", "expected"),
    [
        ("2026-11-16T12:59+01:00", time(13), time(15), None),
        ("2026-11-16T13:00+01:00", time(13), time(15), "2026-11-16T15:00+01:00"),
        ("2026-11-16T15:00+01:00", time(13), time(15), None),
        ("2026-11-16T23:00+01:00", time(22), time(8), "2026-11-17T08:00+01:00"),
        ("2026-11-16T07:59+01:00", time(22), time(8), "2026-11-16T08:00+01:00"),
        ("2026-11-16T08:00+01:00", time(22), time(8), None),
        ("2026-10-24T23:00+02:00", time(22), time(8), "2026-10-25T08:00+01:00"),  # the clocks go back that night
        ("2026-11-16T10:00+01:00", time(9), time(9), None),
        # In the night of 2026-10-25 the clocks show 02:00 to 02:59 twice.
        ("2026-10-25T02:10+02:00", time(22), time(2, 30), "2026-10-25T02:30+02:00"),
        ("2026-10-25T02:40+02:00", time(22), time(2, 30), None),
        ("2026-10-25T02:10+01:00", time(22), time(2, 30), "2026-10-25T02:30+01:00"),
        ("2026-10-25T02:40+02:00", time(2, 35), time(2, 15), "2026-10-25T02:15+01:00"),
        ("2026-10-25T02:40+02:00", time(2, 30), time(3, 30), "2026-10-25T03:30+01:00"),
        # In the night of 2026-03-29 the clocks skip 02:00 to 02:59.
        ("2026-03-29T01:40+01:00", time(22), time(2, 30), "2026-03-29T03:00+02:00"),
        ("2026-03-29T01:40+01:00", time(2, 50), time(2, 40), "2026-03-30T02:40+02:00"),
    ],
)
def test_quiet_hours_use_the_clock_of_the_recipient(now: str, begin: time, end: time, expected: str | None) -> None:
    decision = quiet_end(datetime.fromisoformat(now), begin, end, ROME)
    assert decision == (expected and datetime.fromisoformat(expected))


# Clock changes at 2 and 3 o'clock, at midnight, at 00:01, by half an hour, by two hours, by a whole day, and none.
YEARS = {
    "Europe/Rome": 2026,
    "America/New_York": 2026,
    "America/Havana": 2026,
    "America/Sao_Paulo": 2018,
    "America/St_Johns": 2010,
    "Australia/Lord_Howe": 2026,
    "Antarctica/Troll": 2026,
    "Africa/Cairo": 2026,
    "Pacific/Apia": 2011,
    "Asia/Kolkata": 2026,
}
HOURS = [
    (time(22), time(8)),
    (time(22), time(2, 30)),
    (time(23, 30), time(0)),
    (time(0), time(0, 30)),
    (time(1), time(2)),
    (time(2), time(3)),
    (time(2, 40), time(2, 20)),
    (time(2, 20), time(2, 40)),
    (time(12), time(23, 40)),
]


def instants_of(year: int, zone: ZoneInfo) -> Iterator[datetime]:
    """A year in steps of hours, and in steps of minutes on the days around a clock change."""
    instant, day = datetime(year, 1, 1, tzinfo=UTC), timedelta(days=1)
    while instant.year == year:
        yield instant
        offsets = {(instant + days * day).astimezone(zone).utcoffset() for days in (-1, 0, 1)}
        instant += timedelta(minutes=10) if len(offsets) > 1 else timedelta(hours=5)


def is_skipped(clock: time, change: datetime, zone: ZoneInfo) -> bool:
    """Whether this clock change skips `clock`."""
    wall = change.astimezone(zone).replace(tzinfo=None)
    last = (change - timedelta(seconds=1)).astimezone(zone).replace(tzinfo=None)
    candidates = (datetime.combine(wall.date() - timedelta(days=days), clock) for days in (0, 1))
    return any(last < candidate < wall for candidate in candidates)


@pytest.mark.parametrize(("name", "year"), YEARS.items())
def test_quiet_hours_end_when_the_clock_next_shows_their_end(name: str, year: int) -> None:
    zone = ZoneInfo(name)
    instants = list(instants_of(year, zone))
    for begin, end in HOURS:
        expected = None
        for now in instants:
            clock = now.astimezone(zone).time()
            decision = quiet_end(now, begin, end, zone)
            assert (decision is not None) == (begin <= clock < end if begin <= end else clock >= begin or clock < end)
            if decision is None:
                continue
            shown = decision.astimezone(zone).time()
            assert decision > now, (now, begin, end)
            assert shown == end or is_skipped(end, decision, zone), (now, begin, end, decision)
            # The end stays the same until it is reached, so it is the earliest one.
            assert expected is None or expected <= now or decision == expected, (now, begin, end, decision, expected)
            expected = decision
