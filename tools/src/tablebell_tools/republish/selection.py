"""The filter of a republish run, and its result."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from tablebell_local.errors import CommandError

DURATION = re.compile(r"(\d+)([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """All given filters must match."""

    since: timedelta | None = None
    event: UUID | None = None
    type: str | None = None
    unhandled: bool = False
    dead: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        if self.dead and (self.since or self.unhandled):
            raise CommandError("DEAD=1 takes EVENT, TYPE and ERROR: dead messages have no time")
        if self.error and not self.dead:
            raise CommandError("ERROR needs DEAD=1: published events have no error")

    @property
    def is_empty(self) -> bool:
        return self == Selection()

    def as_json(self) -> dict[str, Any]:
        given = {
            "since": str(self.since) if self.since else None,
            "event": str(self.event) if self.event else None,
            "type": self.type,
            "unhandled": self.unhandled or None,
            "dead": self.dead or None,
            "errorContains": self.error,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(slots=True)
class RepublishResult:
    done: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of matching rows or messages that were not republished, by reason."""
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        self.done += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


def parse_duration(text: str) -> timedelta:
    match = DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"“{text}” is not like 90s, 30m, 6h or 1d")
    return timedelta(**{UNITS[match[2]]: int(match[1])})
