"""The four languages: templates (`templates/<code>.toml`), dates and plurals. Pure.

Names of days and months and plural rules come from Babel (Unicode CLDR). Date patterns are part of the templates,
because they have to fit into the sentences.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

from babel import Locale
from babel.dates import format_datetime

from notification_fanout.contact import ContactTexts
from tablebell.audience import AUDIENCES
from tablebell.events import EventType, ReservationData
from tablebell.people import Audience

CODES = ("it", "en", "es", "pt")
DEFAULT = "it"


@dataclass(frozen=True, slots=True)
class Template:
    title: str
    body: str
    mail: str
    """The sentences of an e-mail, without the facts, which it lists."""
    sms: str
    subject: str | None = None
    """Of an e-mail, if it differs from the title."""


@dataclass(frozen=True, eq=False)
class Language:
    code: str
    locale: Locale
    greeting: str
    footer: str
    party_forms: Mapping[str, str]
    """By CLDR plural category; `other` always exists."""
    when_pattern: str
    when_at_one_pattern: str
    """For times from 1:00 to 1:59: three of the languages use another preposition."""
    short_pattern: str
    labels: Mapping[str, str]
    contact: Mapping[str, ContactTexts]
    """By reason."""
    templates: Mapping[tuple[EventType, Audience], Template]
    called_off: Mapping[Audience, Template]
    """For a cancellation by the restaurant, with its reason."""

    def template(self, event_type: EventType, audience: Audience, data: ReservationData) -> Template:
        if event_type is EventType.RESERVATION_CANCELLED and data.reason is not None:
            return self.called_off[audience]
        return self.templates[event_type, audience]

    def party(self, size: int) -> str:
        form = self.party_forms.get(self.locale.plural_form(size), self.party_forms["other"])
        return form.format(size=size)

    def when(self, instant: datetime, timezone: str) -> str:
        """For example "Friday 20 November 2026 at 8:30 pm", in the restaurant's time zone."""
        local = instant.astimezone(ZoneInfo(timezone))
        return _format(self, self.when_at_one_pattern if local.hour == 1 else self.when_pattern, local)

    def short(self, instant: datetime, timezone: str) -> str:
        return _format(self, self.short_pattern, instant.astimezone(ZoneInfo(timezone)))


def language_of(locale: str) -> Language:
    """pt, pt_BR and PT-br all select Portuguese. A language without templates falls back to Italian."""
    code = locale[:2].lower()
    return languages()[code if code in CODES else DEFAULT]


@cache
def languages() -> Mapping[str, Language]:
    return {code: _load(code) for code in CODES}


def _load(code: str) -> Language:
    text = files("notification_fanout").joinpath("templates", f"{code}.toml").read_text(encoding="utf-8")
    texts: dict[str, Any] = tomllib.loads(text)
    return Language(
        code=code,
        locale=Locale.parse(texts["locale"]),
        greeting=texts["greeting"],
        footer=texts["footer"],
        party_forms=texts["party"],
        when_pattern=texts["when"],
        when_at_one_pattern=texts.get("when_at_one", texts["when"]),
        short_pattern=texts["short"],
        labels=texts["labels"],
        contact={reason: ContactTexts(**sentences) for reason, sentences in texts["contact"].items()},
        templates={
            (event_type, audience): Template(**texts[event_type][audience])
            for event_type, audiences in AUDIENCES.items()
            for audience in audiences
        },
        called_off={audience: Template(**texts["CANCELLED_BY_THE_RESTAURANT"][audience]) for audience in Audience},
    )


@lru_cache(maxsize=4096)  # a batch contains few different times
def _format(language: Language, pattern: str, local: datetime) -> str:
    return format_datetime(local, pattern, locale=language.locale)
