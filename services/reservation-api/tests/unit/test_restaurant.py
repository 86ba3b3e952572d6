"""Opening hours in the restaurant's timezone."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reservation_api.domain.restaurant import DAYS, Hours, NotBookable, Restaurant

ROME = ZoneInfo("Europe/Rome")
NOW = datetime(2027, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


def restaurant(hours: Hours | None, closed: date | None = None, *, accepts: bool = True) -> Restaurant:
    return Restaurant(1, "Da Noi", ROME, accepts, 8, hours, {closed: None} if closed else {})


def check(place: Restaurant, written: str) -> datetime:
    return place.check("slotTime", datetime.fromisoformat(written), NOW, YEAR)


LATE: Hours = {"fri": [["19:00", "02:00"]], "sat": [["12:00", "15:00"]]}


def test_a_sitting_begins_at_its_first_minute_and_not_at_its_last() -> None:
    place = restaurant(LATE)
    assert check(place, "2027-06-05T12:00:00") == datetime(2027, 6, 5, 10, tzinfo=UTC)
    for closed in ("2027-06-05T11:59:00", "2027-06-05T15:00:00", "2027-06-06T12:00:00"):
        with pytest.raises(NotBookable, match="closed"):
            check(place, closed)


def test_a_sitting_can_end_after_midnight() -> None:
    place = restaurant(LATE)
    assert check(place, "2027-06-05T01:30:00") == datetime(2027, 6, 4, 23, 30, tzinfo=UTC)
    with pytest.raises(NotBookable):
        check(place, "2027-06-05T02:00:00")
    with pytest.raises(NotBookable):
        check(place, "2027-06-06T01:30:00")


def test_a_closure_covers_the_whole_sitting() -> None:
    with pytest.raises(NotBookable, match="2027-06-04"):
        check(restaurant(LATE, date(2027, 6, 4)), "2027-06-05T01:30:00")
    check(restaurant(LATE, date(2027, 6, 5)), "2027-06-05T01:30:00")
    with pytest.raises(NotBookable, match="2027-06-05"):
        check(restaurant(None, date(2027, 6, 5)), "2027-06-05T12:00:00")


def test_a_time_without_an_offset_is_in_the_restaurants_timezone() -> None:
    place = restaurant(None)
    assert check(place, "2027-07-01T20:00:00") == check(place, "2027-07-01T18:00:00+00:00")


def test_a_skipped_hour_is_refused_and_a_repeated_hour_means_the_first() -> None:
    place = restaurant(None)
    with pytest.raises(NotBookable, match="does not exist"):
        check(place, "2027-03-28T02:30:00")
    assert check(place, "2027-10-31T02:30:00") == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


def test_a_time_in_the_past_or_too_far_ahead_and_a_closed_restaurant_are_refused() -> None:
    for place, written, field in (
        (restaurant(None), "2026-12-31T20:00:00", "slotTime"),
        (restaurant(None), "2029-01-01T20:00:00", "slotTime"),
        (restaurant(None, accepts=False), "2027-06-01T20:00:00", "restaurantId"),
    ):
        with pytest.raises(NotBookable) as refused:
            check(place, written)
        assert refused.value.field == field
    with pytest.raises(NotBookable, match="up to 8"):
        restaurant(None).check_party(9)


CLOCKS = st.builds(lambda hour, quarter: f"{hour:02}:{quarter * 15:02}", st.integers(0, 23), st.integers(0, 3))
RANGES = st.lists(st.lists(CLOCKS, min_size=2, max_size=2), max_size=3)
HOURS = st.none() | st.dictionaries(st.sampled_from(DAYS), RANGES)
# With a change of the clocks, a skipped and a repeated hour, half-hour offsets, and a skipped midnight.
PLACES = st.sampled_from(
    [
        ("Europe/Rome", date(2027, 3, 28)),
        ("Europe/Rome", date(2027, 10, 31)),
        ("Europe/Rome", date(2027, 6, 5)),
        ("Asia/Kolkata", date(2027, 6, 5)),
        ("Australia/Lord_Howe", date(2027, 4, 4)),
        ("America/Havana", date(2027, 3, 14)),
    ]
)


@given(
    place=PLACES,
    hours=HOURS,
    closed=st.sets(st.integers(-1, 1)),
    accepts=st.booleans(),
    party_size=st.integers(1, 12),
    now_hours=st.integers(-40, 30),
    horizon_hours=st.integers(1, 60),
)
def test_the_available_times_are_exactly_those_that_a_request_would_get(
    place: tuple[str, date],
    hours: Hours | None,
    closed: set[int],
    accepts: bool,
    party_size: int,
    now_hours: int,
    horizon_hours: int,
) -> None:
    name, day = place
    zone = ZoneInfo(name)
    closures = {day + timedelta(days=days): None for days in closed}
    where = Restaurant(1, "Da Noi", zone, accepts, 8, hours, closures)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    now, horizon = midnight + timedelta(hours=now_hours), timedelta(hours=horizon_hours)
    times, reason = where.available_times(day, party_size, timedelta(minutes=15), now, horizon)

    def is_accepted(moment: datetime) -> bool:
        try:
            where.check_party(party_size)
            return where.check("slotTime", moment, now, horizon) == moment
        except NotBookable:
            return False

    # Every quarter of an hour in UTC around the day, whatever the offset of the zone.
    quarters = [midnight + timedelta(minutes=15 * number) for number in range(-24 * 4, 48 * 4)]
    expected = [moment for moment in quarters if moment.astimezone(zone).date() == day and is_accepted(moment)]
    assert [moment.astimezone(UTC) for moment in times] == expected
    assert (reason is None) == bool(times)
    assert all(moment.tzinfo is zone for moment in times), "with the offset of the restaurant"
