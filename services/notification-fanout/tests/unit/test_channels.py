"""By which channels a person is told, when, and if not, why not."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from notification_fanout.audience import channels_for
from notification_fanout.channels import (
    DeliveryContext,
    Reader,
    Send,
    Skip,
    UndeliverableAddress,
    plan,
    quiet_end,
    wants_live,
)
from tablebell.events import EventType
from tablebell.people import Channel, UserType

NOW = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)  # 23:30 in Rome
READER = Reader(
    user_type=UserType.RESTAURANT_USER,
    timezone="Europe/Rome",
    addresses={Channel.EMAIL: "g@porto.example", Channel.SMS: "+39333", Channel.PUSH: "token"},
)
OCCASION = DeliveryContext(
    event_type="RESERVATION_CHANGED",
    allowed=channels_for(EventType.RESERVATION_CHANGED),
    now=NOW,
    not_after=NOW + timedelta(days=1),
    urgent=False,
)
QUIET_READER = replace(READER, quiet_from=time(22), quiet_until=time(8))
MORNING = datetime(2026, 11, 17, 7, 0, tzinfo=UTC)


def by_channel(reader: Reader, occasion: DeliveryContext = OCCASION) -> dict[Channel, Send | Skip]:
    return {answer.channel: answer for answer in plan(reader, occasion)}


def test_staff_are_told_by_mail_sms_and_push_at_once() -> None:
    assert plan(READER, OCCASION) == [
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
def test_others_have_the_channels_of_the_contract(user_type: UserType, channels: list[Channel]) -> None:
    assert list(by_channel(replace(READER, user_type=user_type))) == channels


def test_a_channel_that_was_switched_off_is_skipped_with_the_reason() -> None:
    sms = by_channel(replace(READER, channels={"SMS": False}))[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "switched off" in sms.reason


def test_what_was_decided_for_an_event_beats_what_was_decided_for_the_channel() -> None:
    reader = replace(
        READER,
        channels={"SMS": False, "EMAIL": True},
        event_types={"RESERVATION_CHANGED": {"SMS": True, "EMAIL": False}},
    )
    answers = by_channel(reader)
    assert isinstance(answers[Channel.SMS], Send)
    assert isinstance(answers[Channel.EMAIL], Skip)


def test_a_channel_beyond_the_defaults_can_be_asked_for_but_not_slack() -> None:
    agency = replace(READER, user_type=UserType.AGENCY_USER, channels={"SMS": True, "SLACK": True})
    assert list(by_channel(agency)) == [Channel.EMAIL, Channel.SMS]


def test_a_missing_address_is_a_reason() -> None:
    reader = replace(READER, addresses={Channel.EMAIL: None, Channel.SMS: "", Channel.PUSH: "token"})
    answers = by_channel(reader)
    assert answers[Channel.EMAIL] == Skip(Channel.EMAIL, None, "no e-mail address")
    assert answers[Channel.SMS] == Skip(Channel.SMS, None, "no telephone number")


def test_an_address_that_a_provider_called_dead_is_skipped_until_there_is_another() -> None:
    reader = replace(READER, undeliverable={Channel.SMS: UndeliverableAddress("+39333", "unsubscribed")})
    sms = by_channel(reader)[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "unsubscribed" in sms.reason
    moved = replace(reader, undeliverable={Channel.SMS: UndeliverableAddress("+39000", "unsubscribed")})
    assert isinstance(by_channel(moved)[Channel.SMS], Send)


def test_sms_and_push_wait_for_the_end_of_the_quiet_hours_and_mail_does_not() -> None:
    answers = by_channel(QUIET_READER)
    assert answers[Channel.EMAIL] == Send(Channel.EMAIL, "g@porto.example", NOW)
    assert answers[Channel.SMS] == Send(Channel.SMS, "+39333", MORNING)
    assert answers[Channel.PUSH] == Send(Channel.PUSH, "token", MORNING)


def test_what_is_urgent_does_not_wait() -> None:
    answers = by_channel(QUIET_READER, replace(OCCASION, urgent=True))
    assert answers[Channel.SMS] == Send(Channel.SMS, "+39333", NOW)


def test_what_would_be_useless_after_the_quiet_hours_is_skipped() -> None:
    sms = by_channel(QUIET_READER, replace(OCCASION, not_after=MORNING))[Channel.SMS]
    assert isinstance(sms, Skip)
    assert "quiet hours" in sms.reason


def test_what_comes_too_late_is_skipped_on_every_channel() -> None:
    assert all(isinstance(answer, Skip) for answer in plan(READER, replace(OCCASION, not_after=NOW)))


def test_thanks_come_by_mail_only() -> None:
    thanks = EventType.RESERVATION_VISIT_ENDED
    occasion = replace(OCCASION, event_type=thanks, allowed=channels_for(thanks))
    assert list(by_channel(replace(READER, user_type=UserType.CUSTOMER), occasion)) == [Channel.EMAIL]


def test_the_live_channel_can_be_switched_off_too() -> None:
    assert wants_live(READER, "RESERVATION_CHANGED")
    assert not wants_live(replace(READER, channels={"WEBSOCKET": False}), "RESERVATION_CHANGED")


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
        ("2026-10-24T23:00+02:00", time(22), time(8), "2026-10-25T08:00+01:00"),  # the clocks are put back that night
        ("2026-11-16T10:00+01:00", time(9), time(9), None),
        # In the night of 2026-10-25 the clocks show 02:00 to 02:59 twice.
        ("2026-10-25T02:10+02:00", time(22), time(2, 30), "2026-10-25T02:30+02:00"),
        ("2026-10-25T02:40+02:00", time(22), time(2, 30), None),
        ("2026-10-25T02:10+01:00", time(22), time(2, 30), "2026-10-25T02:30+01:00"),
        ("2026-10-25T02:40+02:00", time(2, 35), time(2, 15), "2026-10-25T02:15+01:00"),
        ("2026-10-25T02:40+02:00", time(2, 30), time(3, 30), "2026-10-25T03:30+01:00"),
        # In the night of 2026-03-29 they show no 02:xx at all.
        ("2026-03-29T01:40+01:00", time(22), time(2, 30), "2026-03-29T03:00+02:00"),
        ("2026-03-29T01:40+01:00", time(2, 50), time(2, 40), "2026-03-30T02:40+02:00"),
    ],
)
def test_quiet_hours_are_hours_of_the_readers_clock(now: str, begin: time, end: time, expected: str | None) -> None:
    answer = quiet_end(datetime.fromisoformat(now), begin, end, ROME)
    assert answer == (expected and datetime.fromisoformat(expected))


# The clocks change at 2 and 3 o'clock, at midnight, at 00:01, by half an hour, by two hours, by a whole day, and never.
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


def moments_of(year: int, zone: ZoneInfo) -> Iterator[datetime]:
    """A year in steps of some hours, and in steps of minutes on the days around a change of the clocks."""
    moment, day = datetime(year, 1, 1, tzinfo=UTC), timedelta(days=1)
    while moment.year == year:
        yield moment
        offsets = {(moment + days * day).astimezone(zone).utcoffset() for days in (-1, 0, 1)}
        moment += timedelta(minutes=10) if len(offsets) > 1 else timedelta(hours=5)


def is_skipped(clock: time, change: datetime, zone: ZoneInfo) -> bool:
    """Whether the clock was put forward past `clock` at that moment."""
    wall = change.astimezone(zone).replace(tzinfo=None)
    last = (change - timedelta(seconds=1)).astimezone(zone).replace(tzinfo=None)
    candidates = (datetime.combine(wall.date() - timedelta(days=days), clock) for days in (0, 1))
    return any(last < candidate < wall for candidate in candidates)


@pytest.mark.parametrize(("name", "year"), YEARS.items())
def test_quiet_hours_always_end_after_now_when_the_clock_next_shows_their_end(name: str, year: int) -> None:
    zone = ZoneInfo(name)
    moments = list(moments_of(year, zone))
    for begin, end in HOURS:
        expected = None
        for now in moments:
            clock = now.astimezone(zone).time()
            answer = quiet_end(now, begin, end, zone)
            assert (answer is not None) == (begin <= clock < end if begin <= end else clock >= begin or clock < end)
            if answer is None:
                continue
            shown = answer.astimezone(zone).time()
            assert answer > now, (now, begin, end)
            assert shown == end or is_skipped(end, answer, zone), (now, begin, end, answer)
            # As time goes by the end stays where it is, until it is reached: so there was none before it.
            assert expected is None or expected <= now or answer == expected, (now, begin, end, answer, expected)
            expected = answer
