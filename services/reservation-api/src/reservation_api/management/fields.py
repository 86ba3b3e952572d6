"""Types of the fields of restaurants, agencies and people, each validated and normalized. Pure."""

import re
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal
from zoneinfo import available_timezones

from email_validator import EmailNotValidError, validate_email
from pydantic import AfterValidator, StringConstraints, WithJsonSchema

from reservation_api.schemas import printable

# E.164: a plus sign, the country code and the number, 7 to 15 digits together.
E164 = re.compile(r"\+[1-9]\d{6,14}", re.ASCII)
SEPARATORS = str.maketrans("", "", " -./()\N{NO-BREAK SPACE}")


class Role(StrEnum):
    MANAGER = "MANAGER"
    STAFF = "STAFF"
    ADMIN = "ADMIN"
    READ_ONLY = "READ_ONLY"


def email(written: str) -> str:
    """The syntax is checked without a DNS look-up. International domains become ASCII, as SMTP servers expect."""
    try:
        address = validate_email(written, check_deliverability=False, allow_smtputf8=False)
    except EmailNotValidError as error:
        raise ValueError(f"is not an e-mail address: {error}") from None
    return address.ascii_email or address.normalized


def phone(written: str) -> str:
    number = written.translate(SEPARATORS)
    if not E164.fullmatch(number):
        raise ValueError("should be a telephone number with its country code, such as +39 010 555 0110")
    return number


@cache
def timezones() -> frozenset[str]:
    # The names without a slash are abbreviations and leftovers such as EST5EDT, except UTC.
    return frozenset(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")) | {"UTC"}


def timezone(name: str) -> str:
    if name not in timezones():
        raise ValueError("should be a timezone of the IANA database, such as Europe/Rome")
    return name


def _text(longest: int) -> StringConstraints:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=longest)


Name = Annotated[str, _text(200), AfterValidator(printable)]
Address = Annotated[str, _text(500), AfterValidator(printable)]
ExternalId = Annotated[str, _text(200), AfterValidator(printable)]
FcmToken = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]
Email = Annotated[
    str,
    _text(254),
    AfterValidator(email),
    WithJsonSchema({"type": "string", "format": "email", "examples": ["anna.bianchi@mail.example"]}),
]
Phone = Annotated[
    str,
    _text(40),
    AfterValidator(phone),
    WithJsonSchema({"type": "string", "description": "In E.164 form.", "examples": ["+393330000005"]}),
]
Timezone = Annotated[
    str, AfterValidator(timezone), WithJsonSchema({"type": "string", "examples": ["Europe/Rome", "Europe/Lisbon"]})
]
Locale = Literal["it", "en", "es", "pt"]
