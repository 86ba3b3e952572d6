"""Imports people from a CSV file: all lines or none, in one transaction.

A line changes the person of its user type with the same external id, or else with the same e-mail address; otherwise it
creates one. So the same file can be imported again. Deactivated people stay inactive.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import asyncpg
from pydantic import ConfigDict

from reservation_api.management import store
from reservation_api.management.changes import Actor, ChangeAct, Subject, change_record
from reservation_api.management.people_csv import LineProblem, ParsedFile, PersonLine, parse_people
from reservation_api.management.person import FIELDS, check_fields, fields_of_new
from reservation_api.problem import FieldError, Problem, ProblemType
from reservation_api.transaction import in_transaction
from tablebell.events import CamelModel
from tablebell.people import UserType
from tablebell.postgres import Connection, Pool

BATCH = 1_000
MOST_ERRORS = 1_000

Progress = Callable[[str, int, int], None]
"""Called with the step, the number of lines done, and of all lines or 0 if it is not known."""


class ImportProblem(CamelModel):
    line: int
    field: str
    message: str


class ImportResult(CamelModel):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "dryRun": True,
                "rows": 3,
                "created": 1,
                "changed": 1,
                "unchanged": 0,
                "problems": [{"line": 4, "field": "email", "message": "is not an e-mail address: …"}],
            }
        }
    )

    dry_run: bool
    rows: int
    created: int
    changed: int
    unchanged: int
    problems: list[ImportProblem]
    """If there is one, nothing is imported."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write: new people, and changed ones with their fields before."""

    created: list[tuple[PersonLine, dict[str, Any]]]
    changed: list[tuple[UserType, dict[str, Any], dict[str, Any]]]
    unchanged: int
    problems: list[LineProblem]


class PeopleImport:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def run(
        self, content: bytes, actor: Actor, *, dry_run: bool, progress: Progress | None = None
    ) -> ImportResult:
        """With problems, nothing is written and the result lists them."""
        report = progress or _ignore
        parsed = ParsedFile()
        for parsed in parse_people(content):
            report("read", parsed.rows, 0)
            await asyncio.sleep(0)  # a service answers other requests in between

        async def work(connection: Connection) -> Plan:
            plan = await _plan(connection, parsed, report)
            if not plan.problems and not dry_run:
                await _write(connection, plan, actor, report)
            return plan

        try:
            plan = await in_transaction(self._pool, work)
        except (asyncpg.UniqueViolationError, asyncpg.ForeignKeyViolationError):
            raise Problem(
                ProblemType.NOT_POSSIBLE_NOW,
                "People were changed at the same time. Nothing was imported: try again.",
            ) from None
        problems = sorted(plan.problems, key=lambda problem: problem.line)
        return ImportResult(
            dry_run=dry_run,
            rows=parsed.rows,
            created=len(plan.created),
            changed=len(plan.changed),
            unchanged=plan.unchanged,
            problems=[ImportProblem(line=one.line, field=one.field, message=one.message) for one in problems],
        )


def refusal(result: ImportResult) -> Problem:
    """The response to an import with problems."""
    errors = [FieldError(field=f"line {one.line}: {one.field}", message=one.message) for one in result.problems]
    detail = f"{len(errors)} problems; nothing was imported."
    return Problem(ProblemType.INVALID, detail, errors=errors[:MOST_ERRORS])


def _ignore(_step: str, _done: int, _all: int) -> None:
    return


async def _plan(connection: Connection, parsed: ParsedFile, report: Progress) -> Plan:
    plan = Plan([], [], 0, list(parsed.problems))
    unchanged = 0
    plan.problems.extend(await _missing_places(connection, parsed.lines))
    done = 0
    for user_type in UserType:
        lines = [line for line in parsed.lines if line.user_type is user_type]
        plan.problems.extend(_repeated(lines))
        for start in range(0, len(lines), BATCH):
            batch = lines[start : start + BATCH]
            existing = Existing(await _existing(connection, user_type, batch))
            for line in batch:
                try:
                    unchanged += _plan_line(line, existing, plan)
                except Problem as problem:
                    error = problem.errors[0]
                    plan.problems.append(LineProblem(line.line, error.field, error.message))
            done += len(batch)
            report("checked", done, len(parsed.lines))
            await asyncio.sleep(0)
    return Plan(plan.created, plan.changed, unchanged, plan.problems)


class Existing:
    """The people that the lines of a batch may mean, by their keys."""

    def __init__(self, rows: Sequence[asyncpg.Record]) -> None:
        self.by_external_id = {row["external_id"]: row for row in rows if row["external_id"]}
        self.by_email = {row["email"].lower(): row for row in rows if row["email"]}
        self.by_phone = {row["phone"]: row for row in rows if row["phone"]}


async def _existing(connection: Connection, user_type: UserType, lines: Sequence[PersonLine]) -> list[asyncpg.Record]:
    given = [line.fields for line in lines]
    return await store.find_people_by_keys(
        connection,
        user_type,
        external_ids={one["external_id"] for one in given if "external_id" in one},
        emails={one["email"].lower() for one in given if "email" in one},
        phones={one["phone"] for one in given if "phone" in one},
    )


def _plan_line(line: PersonLine, existing: Existing, plan: Plan) -> int:
    """Adds the line to the plan. Returns 1 if it changes nothing; raises a Problem if it is wrong."""
    fields = line.fields
    by_external_id = existing.by_external_id.get(fields.get("external_id"))
    by_email = existing.by_email.get(fields.get("email", "").lower())
    by_phone = existing.by_phone.get(fields.get("phone"))
    row = by_external_id if by_external_id is not None else by_email
    for other, name in ((by_email, "email"), (by_phone, "phone")):
        if other is not None and (row is None or other["user_id"] != row["user_id"]):
            raise Problem.of_field(name, f"Person {other['user_id']} has the same {name}.")
    if row is None:
        plan.created.append((line, fields_of_new(line.user_type, fields)))
        return 0
    before = {field: row[field] for field in FIELDS}
    after = before | fields
    if after == before:
        return 1
    check_fields(line.user_type, after)
    plan.changed.append((line.user_type, {**before, "user_id": row["user_id"], "updated_at": row["updated_at"]}, after))
    return 0


def _repeated(lines: Sequence[PersonLine]) -> list[LineProblem]:
    """Lines with the key of an earlier line."""
    problems = []
    first: dict[tuple[str, str], int] = {}
    for line in lines:
        for name, label in (("external_id", "externalId"), ("email", "email"), ("phone", "phone")):
            if name in line.fields:
                value = line.fields[name].lower() if name == "email" else line.fields[name]
                earlier = first.setdefault((name, value), line.line)
                if earlier != line.line:
                    problems.append(LineProblem(line.line, label, f"Line {earlier} has the same {label}."))
    return problems


async def _missing_places(connection: Connection, lines: Sequence[PersonLine]) -> list[LineProblem]:
    problems = []
    for name, label, find in (
        ("restaurant_id", "restaurantId", store.find_restaurant_ids),
        ("agency_id", "agencyId", store.find_agency_ids),
    ):
        wanted = {line.fields[name] for line in lines if name in line.fields}
        missing = wanted - await find(connection, wanted) if wanted else set()
        problems += [
            LineProblem(line.line, label, f"The {label.removesuffix('Id')} does not exist.")
            for line in lines
            if line.fields.get(name) in missing
        ]
    return problems


async def _write(connection: Connection, plan: Plan, actor: Actor, report: Progress) -> None:
    total, done = len(plan.created) + len(plan.changed), 0
    for user_type, lines in groupby(plan.created, key=lambda one: one[0].user_type):
        people = [fields for _, fields in lines]
        for start in range(0, len(people), BATCH):
            batch = people[start : start + BATCH]
            ids = await store.append_people(connection, user_type, batch)
            rows = [
                change_record(Subject(user_type), user_id, ChangeAct.CREATE, {}, fields)
                for user_id, fields in zip(ids, batch, strict=True)
            ]
            await store.append_changes(connection, actor, rows)
            done += len(batch)
            report("written", done, total)
    for user_type, changes in groupby(plan.changed, key=lambda one: one[0]):
        pairs = [(before, after) for _, before, after in changes]
        for start in range(0, len(pairs), BATCH):
            part = pairs[start : start + BATCH]
            keys = ("user_id", "updated_at")
            people = [{**after, **{key: before[key] for key in keys}} for before, after in part]
            if len(await store.change_people_if_unchanged(connection, user_type, people)) < len(part):
                raise asyncpg.SerializationError("a person was changed at the same time")
            rows = [
                change_record(Subject(user_type), before["user_id"], ChangeAct.CHANGE, before, after)
                for before, after in part
            ]
            await store.append_changes(connection, actor, rows)
            done += len(part)
            report("written", done, total)
