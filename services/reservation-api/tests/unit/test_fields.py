"""The fields of restaurants and people: what is accepted, how it is normalized, and what is refused."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from reservation_api.management.fields import Email, Name, Phone, Timezone
from reservation_api.management.opening_hours import OpeningHours


def accepted(kind: Any, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "written", "stored"),
    [
        (Phone, "+39 333 000-0050", "+393330000050"),
        (Phone, " +34 (600) 000.070 ", "+34600000070"),
        (Email, " Anna.Bianchi@Mail.Example ", "Anna.Bianchi@mail.example"),
        (Email, "info@città.it", "info@xn--citt-3na.it"),
        (Timezone, "Europe/Lisbon", "Europe/Lisbon"),
        (Timezone, "UTC", "UTC"),
        (Name, "  Luís Pereira ", "Luís Pereira"),
    ],
)
def test_a_valid_value_is_normalized(kind: Any, written: str, stored: str) -> None:
    assert accepted(kind, written) == stored


@pytest.mark.parametrize(
    ("kind", "written", "reason"),
    [
        (Phone, "333 0000050", "country code"),
        (Phone, "+0393330000050", "country code"),
        (Phone, "+3933300000501234", "country code"),
        (Phone, "+39\u0663\u0663\u0663\u0660\u0660\u0660\u0660", "country code"),
        (Email, "anna", "@-sign"),
        (Email, "anna@mail", "period"),
        (Email, "Anna <anna@mail.example>", "display name"),
        (Email, "a b@mail.example", "SPACE"),
        (Timezone, "Rome", "IANA"),
        (Timezone, "europe/rome", "IANA"),
        (Timezone, "CET", "IANA"),
        (Name, "   ", "at least 1"),
        (Name, "An\u202ena", "invisible"),
    ],
)
def test_an_invalid_value_is_refused_with_the_reason(kind: Any, written: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        accepted(kind, written)


@pytest.mark.parametrize(
    "hours",
    [
        {},
        {"fri": [["12:00", "15:00"], ["19:00", "02:00"]], "sat": [["02:00", "04:00"]]},
        {"sun": [["18:00", "01:00"]], "mon": [["01:00", "03:00"]]},
        {"mon": [["00:00", "00:00"]], "tue": [["00:00", "00:00"]]},
    ],
)
def test_ranges_may_pass_midnight_and_touch_each_other(hours: dict[str, list[list[str]]]) -> None:
    assert accepted(OpeningHours, hours) == hours


@pytest.mark.parametrize(
    ("hours", "reason"),
    [
        ({"friday": [["12:00", "15:00"]]}, "is not a day"),
        ({"fri": [["12:00", "15:00"], ["14:00", "18:00"]]}, "overlaps"),
        ({"fri": [["19:00", "02:00"]], "sat": [["01:00", "04:00"]]}, "fri 19:00 to 02:00 overlaps sat 01:00 to 04:00"),
        ({"sun": [["19:00", "02:00"]], "mon": [["01:00", "04:00"]]}, "sun 19:00 to 02:00 overlaps mon 01:00 to 04:00"),
        ({"fri": [["12:00", "12:00"]]}, "is empty"),
        ({"fri": [["12:00", "24:00"]]}, "pattern"),
        ({"fri": [["9:00", "12:00"]]}, "pattern"),
        ({"fri": [["12:00"]]}, "at least 2"),
    ],
)
def test_wrong_opening_hours_are_refused_with_the_reason(hours: object, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        accepted(OpeningHours, hours)


def test_days_without_ranges_are_dropped() -> None:
    assert accepted(OpeningHours, {"mon": [], "tue": [["12:00", "15:00"]]}) == {"tue": [["12:00", "15:00"]]}
