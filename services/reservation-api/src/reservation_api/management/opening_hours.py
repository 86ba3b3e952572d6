"""Opening hours as they are written in requests: ranges per weekday, which may end after midnight. Pure."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from reservation_api.domain.restaurant import DAYS

MOST_RANGES = 6
DAY = 24 * 60
WEEK = 7 * DAY
CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

Clock = Annotated[str, StringConstraints(pattern=CLOCK)]
Range = Annotated[list[Clock], Field(min_length=2, max_length=2)]


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


def check_hours(hours: Mapping[str, Sequence[Sequence[str]]]) -> Mapping[str, Sequence[Sequence[str]]]:
    """Refuse unknown days and ranges that overlap, also across midnight and from Sunday to Monday."""
    spans: list[tuple[int, int, str]] = []
    for day, ranges in hours.items():
        if day not in DAYS:
            raise ValueError(f"{day[:20]} is not a day: use {', '.join(DAYS)}")
        for opens, closes in ranges:
            if opens == closes and opens != "00:00":
                raise ValueError(f"{day} {opens} to {closes} is empty; a whole day is 00:00 to 00:00")
            begin, length = DAYS.index(day) * DAY + _minutes(opens), _minutes(closes) - _minutes(opens)
            spans.append((begin, begin + (length if length > 0 else length + DAY), f"{day} {opens} to {closes}"))
    spans.sort()
    if spans:
        first = spans[0]
        spans.append((first[0] + WEEK, first[1] + WEEK, first[2]))
    for before, after in pairwise(spans):
        if before[1] > after[0]:
            raise ValueError(f"{before[2]} overlaps {after[2]}")
    return {day: hours[day] for day in DAYS if hours.get(day)}


OpeningHours = Annotated[
    dict[str, Annotated[list[Range], Field(max_length=MOST_RANGES)]],
    Field(max_length=len(DAYS)),
    AfterValidator(check_hours),
    WithJsonSchema(
        {
            "type": "object",
            "description": "Ranges per weekday in the restaurant's timezone. A range that ends earlier than it begins "
            "ends after midnight. A missing day is closed. null: always open.",
            "propertyNames": {"enum": list(DAYS)},
            "additionalProperties": {
                "type": "array",
                "maxItems": MOST_RANGES,
                "items": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 2,
                    "items": {"type": "string", "pattern": CLOCK},
                },
            },
            "examples": [{"fri": [["12:00", "15:00"], ["19:00", "01:30"]]}],
        }
    ),
]
