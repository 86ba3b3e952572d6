"""The four languages: their texts (`templates/<code>.toml`) and how they write a time and a number of people. Pure."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

from notification_fanout.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.people import Audience

CODES = ("it", "en", "es", "pt")
DEFAULT = "it"


@dataclass(frozen=True, slots=True)
class Template:
    title: str
    body: str
    sms: str


@dataclass(frozen=True, eq=False)
class Language:
    code: str
    greeting: str
    footer: str
    person: str
    people: str
    when_pattern: str
    short_pattern: str
    clock: int
    weekdays: tuple[str, ...]
    months: tuple[str, ...]
    labels: Mapping[str, str]
    templates: Mapping[tuple[EventType, Audience], Template]

    def party(self, size: int) -> str:
        return f"{size} {self.person if size == 1 else self.people}"

    def when(self, instant: datetime, timezone: str) -> str:
        """Friday 20 November 2026 at 8:30 pm, as the clock on the restaurant's wall will show it."""
        return _written(self, self.when_pattern, instant, timezone)

    def short(self, instant: datetime, timezone: str) -> str:
        return _written(self, self.short_pattern, instant, timezone)


def language_of(locale: str) -> Language:
    """pt, pt_BR and PT-br are all Portuguese; what we do not speak is told in Italian."""
    code = locale[:2].lower()
    return languages()[code if code in CODES else DEFAULT]


@cache
def languages() -> Mapping[str, Language]:
    return {code: _load(code) for code in CODES}


def _load(code: str) -> Language:
    text = files("notification_fanout").joinpath("templates", f"{code}.toml").read_text(encoding="utf-8")
    given: dict[str, Any] = tomllib.loads(text)
    return Language(
        code=code,
        greeting=given["greeting"],
        footer=given["footer"],
        person=given["person"],
        people=given["people"],
        when_pattern=given["when"],
        short_pattern=given["short"],
        clock=given["clock"],
        weekdays=tuple(given["weekdays"]),
        months=tuple(given["months"]),
        labels=given["labels"],
        templates={
            (event_type, audience): Template(**given[event_type][audience])
            for event_type, audiences in AUDIENCES.items()
            for audience in audiences
        },
    )


@lru_cache(maxsize=4096)  # the people of one batch read the same few times again and again
def _written(language: Language, pattern: str, instant: datetime, timezone: str) -> str:
    local = instant.astimezone(ZoneInfo(timezone))
    weekday, month = language.weekdays[local.weekday()], language.months[local.month - 1]
    return pattern.format(
        weekday=weekday,
        weekday_short=weekday[:3],
        day=local.day,
        month=month,
        month_short=month[:3],
        month_number=local.month,
        year=local.year,
        time=_time(local, language.clock),
    )


def _time(local: datetime, clock: int) -> str:
    if clock == 12:
        return f"{local.hour % 12 or 12}:{local.minute:02} {'am' if local.hour < 12 else 'pm'}"
    return f"{local.hour:02}:{local.minute:02}"
