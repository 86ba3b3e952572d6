"""Reads a CSV file of people: every line becomes fields of the API, or problems with the number of the line. Pure.

The header names the columns as the API does, in camelCase or snake_case: userType and name are required; externalId,
email, phone, locale, timezone, role, restaurantId and agencyId are optional. An empty cell counts as not given.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from reservation_api.management.person import NewPerson
from tablebell.people import UserType

MOST_ROWS = 50_000
LONGEST_CELL = 1_000
COLUMNS = {name.replace("_", ""): name for name in ("user_type", *NewPerson.model_fields)}
ALIASES = {name: str(info.alias or name) for name, info in NewPerson.model_fields.items()}
NUMBERS = frozenset({"restaurant_id", "agency_id"})


@dataclass(frozen=True, slots=True)
class LineProblem:
    line: int
    field: str
    message: str


@dataclass(slots=True)
class PersonLine:
    line: int
    user_type: UserType
    fields: dict[str, Any]
    """The given fields only."""


@dataclass(slots=True)
class ParsedFile:
    lines: list[PersonLine] = field(default_factory=list)
    problems: list[LineProblem] = field(default_factory=list)
    rows: int = 0


def parse_people(content: bytes) -> Iterator[ParsedFile]:
    """Yields the growing result from time to time, so that the caller can do something else in between."""
    parsed = ParsedFile()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        parsed.problems.append(LineProblem(line, "file", "The file is not UTF-8."))
        yield parsed
        return
    header = text.partition("\n")[0]
    # Spreadsheets write semicolons where the comma is the decimal separator.
    delimiter = ";" if header.count(";") > header.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = _columns(next(reader, []), parsed)
        if columns is not None:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    _read_row(reader.line_num, cells, columns, parsed)
                    if parsed.rows % 200 == 0:
                        yield parsed
                if parsed.rows > MOST_ROWS:
                    message = f"The file has more than {MOST_ROWS} people: split it."
                    parsed.problems.append(LineProblem(reader.line_num, "file", message))
                    break
    except csv.Error as error:
        parsed.problems.append(LineProblem(reader.line_num, "file", f"The line is not valid CSV: {error}."))
    yield parsed


def _columns(header: list[str], parsed: ParsedFile) -> list[str] | None:
    names = [COLUMNS.get(cell.strip().lower().replace("_", "")) for cell in header]
    known = [name for name in names if name is not None]
    for cell, name in zip(header, names, strict=True):
        if name is None:
            parsed.problems.append(LineProblem(1, cell.strip()[:100] or "header", "The column is not known."))
    for name in sorted({name for name in known if known.count(name) > 1}):
        parsed.problems.append(LineProblem(1, name, "The column occurs twice."))
    for name in ("user_type", "name"):
        if name not in known:
            parsed.problems.append(LineProblem(1, name, "The column is missing."))
    return known if not parsed.problems else None


def _read_row(line: int, cells: list[str], columns: list[str], parsed: ParsedFile) -> None:
    parsed.rows += 1
    problems = parsed.problems
    if len(cells) != len(columns):
        problems.append(LineProblem(line, "file", f"The line has {len(cells)} cells, the header {len(columns)}."))
        return
    given = {name: cell.strip() for name, cell in zip(columns, cells, strict=True) if cell.strip()}
    written = given.pop("user_type", "").upper()
    if written not in set(UserType):
        problems.append(LineProblem(line, "userType", f"should be {', '.join(UserType)}"))
        return
    values: dict[str, Any] = {ALIASES[name]: _value(name, cell) for name, cell in given.items()}
    if "role" in values:
        values["role"] = values["role"].upper()
    try:
        person = NewPerson.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            name = ".".join(str(part) for part in detail["loc"]) or "line"
            problems.append(LineProblem(line, name, detail["msg"].removeprefix("Value error, ")))
        return
    fields = {name: value for name, value in person.model_dump(mode="json").items() if name in given}
    parsed.lines.append(PersonLine(line, UserType(written), fields))


def _value(name: str, cell: str) -> str | int:
    if name in NUMBERS and cell.isascii() and cell.isdigit() and len(cell) <= 18:
        return int(cell)
    return cell[:LONGEST_CELL]
