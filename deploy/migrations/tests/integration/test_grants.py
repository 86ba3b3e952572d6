"""The grants of 0005_roles.sql are what the SQL of each service uses, to the column: nothing less, nothing more.

PostgreSQL says what a statement uses: with debug_print_rewritten it logs the rewritten query when the statement is
prepared, and the columns of every table that it checks at the execution.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import asyncpg
import pytest

from tablebell.outbox.table import Level
from tablebell.postgres import Pool
from tablebell.sqlfile import load_queries
from tablebell.testing import Database

OWN = {
    "reservation_api": ("reservation_api", "reservation_api.management", "reservation_api.sign_in"),
    "event_relay": ("event_relay",),
    "notification_fanout": ("notification_fanout",),
    "channel_dispatcher": ("channel_dispatcher",),
}
QUEUE = ("claim", "complete_if_leased", "fail_if_leased", "release_if_leased")
BURIAL = ("find_due", "bury_if_leased", "bury_if_free")
RETENTION = ("count", "measure_delays", "purge_done", "purge_dead")
OPERATION = ("find", "requeue", "discard", "count", "count_done")
# The blocks of tablebell.outbox that a service calls, besides all of its own.
SHARED: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "reservation_api": [
        *((f"table/{level}.sql", OPERATION) for level in Level),
        ("withdrawal.sql", ("withdraw_channel_sends",)),
    ],
    "event_relay": [("queue/event_outbox.sql", QUEUE), ("table/event_outbox.sql", (*BURIAL, *RETENTION))],
    "notification_fanout": [
        ("queue/notification_outbox.sql", QUEUE),
        ("table/notification_outbox.sql", (*BURIAL, *RETENTION)),
        ("withdrawal.sql", ("withdraw_channel_sends",)),
    ],
    "channel_dispatcher": [("table/notification_channel_send.sql", (*BURIAL, *RETENTION))],
}
# The statements of reached_limit, which runs with the rights of its caller.
FUNCTIONS = {
    "reservation_api": [
        "SELECT id, customer_id, restaurant_id, slot_time, status, created_at FROM reservation",
        "SELECT actor_type, actor_id, action_type, resulting_version, created_at FROM notification_action",
    ]
}

# A table in the rewritten query, as PostgreSQL 15 (in the range table) and 16 (in a list of its own) print it.
ENTRY = re.compile(
    r":relid (?P<table>\d+) [^{}]*?:requiredPerms (?P<rights>\d+) :checkAsUser (?P<user>\d+)"
    r" :selectedCols \(b(?P<SELECT>[ \d]*)\) :insertedCols \(b(?P<INSERT>[ \d]*)\) :updatedCols \(b(?P<UPDATE>[ \d]*)\)"
)
RIGHTS = {"INSERT": 1, "SELECT": 2, "UPDATE": 4, "DELETE": 8}
# FirstLowInvalidHeapAttributeNumber: the system columns come before column 1, and the whole row is column 0.
OFFSET = 7


class Right(NamedTuple):
    table: str
    right: str
    column: str
    """Empty for DELETE, and for a right to any column: SELECT FOR UPDATE needs UPDATE, but updates none."""


def statements(service: str) -> Iterator[str]:
    for package in OWN[service]:
        yield from load_queries(package, "sql", "queries.sql").values()
    for path, names in SHARED[service]:
        blocks = load_queries("tablebell.outbox", "sql", *path.split("/"))
        yield from (blocks[name] for name in names)
    if service != "reservation_api":  # it purges nothing that the audit checks
        yield from load_queries("tablebell", "sql", "purging.sql").values()
    yield from FUNCTIONS.get(service, [])


async def used_rights(connection: "asyncpg.Connection[Any]", texts: Iterable[str]) -> set[Right]:
    logged: list[str] = []
    connection.add_log_listener(lambda _, message: logged.append(message.detail or ""))
    await connection.execute(
        "SET client_min_messages = log; SET debug_pretty_print = off; SET debug_print_rewritten = on"
    )
    for text in texts:
        await connection.prepare(text)
    await connection.execute("SET debug_print_rewritten = off")
    columns = await _columns(connection)  # and asyncpg has called the listener by then
    used: set[Right] = set()
    for match in ENTRY.finditer(" ".join(" ".join(logged).split())):
        table, names = columns.get(int(match["table"]), ("", {}))
        if not table or match["user"] != "0":
            continue  # a table of PostgreSQL, or checked as the owner of a view
        for right, bit in RIGHTS.items():
            if not int(match["rights"]) & bit:
                continue
            numbers = [int(number) - OFFSET for number in match[right].split()] if right != "DELETE" else []
            assert 0 not in numbers, f"a statement uses the whole row of {table}"
            used |= {Right(table, right, names[number]) for number in numbers if number > 0} or {
                Right(table, right, "")
            }
    return used


async def _columns(connection: "asyncpg.Connection[Any]") -> dict[int, tuple[str, dict[int, str]]]:
    rows = await connection.fetch(
        """
        SELECT c.oid::bigint, c.relname, a.attnum, a.attname
          FROM pg_class AS c
          JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.relnamespace = 'public'::regnamespace
        """
    )
    tables: dict[int, tuple[str, dict[int, str]]] = {}
    for row in rows:
        tables.setdefault(row["oid"], (row["relname"], {}))[1][row["attnum"]] = row["attname"]
    return tables


async def granted_rights(pool: Pool, service: str) -> set[Right]:
    rows = await pool.fetch(
        """
        SELECT table_name, privilege_type, column_name
          FROM information_schema.column_privileges
         WHERE grantee = $1 AND table_schema = 'public'
        UNION
        SELECT table_name, privilege_type, ''
          FROM information_schema.table_privileges
         WHERE grantee = $1 AND table_schema = 'public' AND privilege_type NOT IN ('SELECT', 'INSERT', 'UPDATE')
        """,
        f"tablebell_{service}",
    )
    return {Right(*row) for row in rows}


@pytest.mark.parametrize("service", SHARED)
async def test_the_grants_of_a_service_are_what_its_statements_use(
    database: Database, pool: Pool, service: str
) -> None:
    granted = await granted_rights(pool, service)
    connection = await asyncpg.connect(database.url.get_secret_value())
    used = await used_rights(connection, statements(service))
    await connection.close()
    exact = {right for right in used if right.column or right.right == "DELETE"}
    for any_column in used - exact:  # a right that the service has anyway, or one to a single column
        having = {right for right in granted if right[:2] == any_column[:2]}
        exact |= having if having and len(having) == 1 else having & exact or {any_column}
    wrong = [f"GRANT {_described(right)} TO {service}" for right in sorted(exact - granted)]
    wrong += [f"REVOKE {_described(right)} FROM {service}" for right in sorted(granted - exact)]
    assert not wrong, "change 0005_roles.sql:\n" + "\n".join(wrong)


def _described(right: Right) -> str:
    return f"{right.right}{f' ({right.column})' if right.column else ''} ON {right.table}"
