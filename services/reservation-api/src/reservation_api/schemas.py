"""Types of request fields: camelCase, no unknown fields, bounded printable strings, strict numbers."""

import re
import unicodedata
from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.alias_generators import to_camel

LARGEST_ID = 2**63 - 1

# Seconds and offset are optional.
MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.0{1,6})?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII)


class Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


def printable(text: str) -> str:
    """Refuse characters of category C: control characters, invisible characters, lone surrogates."""
    if any(unicodedata.category(character).startswith("C") for character in text):
        raise ValueError("control characters and invisible characters are not allowed")
    return text


def moment(value: Any) -> Any:
    if not isinstance(value, str) or not MOMENT.fullmatch(value):
        raise ValueError("should be a date and time such as 2027-11-14T20:00:00, with or without an offset")
    return value


def whole_minute(value: datetime) -> datetime:
    if not 2000 <= value.year <= 2200:
        raise ValueError("should be between the years 2000 and 2200")
    if value.second or value.microsecond:
        raise ValueError("should be a whole minute")
    return value


Id = Annotated[int, Field(strict=True, ge=1, le=LARGEST_ID)]
PathId = Annotated[int, Field(ge=1, le=LARGEST_ID)]
PartySize = Annotated[int, Field(strict=True, ge=1, le=1000)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(printable)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(printable)]
Moment = Annotated[
    datetime,
    AfterValidator(whole_minute),
    BeforeValidator(moment),
    WithJsonSchema({"type": "string", "pattern": f"^{MOMENT.pattern}$", "examples": ["2027-11-14T20:00:00"]}),
]
