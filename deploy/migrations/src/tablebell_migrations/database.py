"""The operations on a database: upgrade the schema, set the roles' passwords, add the demo data."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from psycopg import conninfo, sql

from tablebell_migrations.script import read_script

SERVICE_ROLES = ("reservation_api", "event_relay", "notification_fanout", "channel_dispatcher")

# PostgreSQL refuses concurrent changes of one role, so sessions take turns.
PASSWORD_LOCK = 7_203_115


def upgrade(url: str, revision: str = "head") -> None:
    config = Config()
    config.set_main_option("script_location", "tablebell_migrations:history")
    config.attributes["connect"] = partial(connect, url)
    command.upgrade(config, revision)


def connect(url: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """Connect to the server that accepts writes, if the URL names several. The timeout applies to each server."""
    defaults = {"target_session_attrs": "read-write", "connect_timeout": "10"}
    return psycopg.connect(conninfo.make_conninfo("", **{**defaults, **conninfo.conninfo_to_dict(url)}))


def set_passwords(url: str, passwords: Mapping[str, str]) -> None:
    """`passwords` maps a service's role (without its prefix) to its password. Roles that are not named keep theirs."""
    alter = sql.SQL("ALTER ROLE {} PASSWORD {}")
    with connect(url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [PASSWORD_LOCK])
        for service, password in passwords.items():
            connection.execute(alter.format(sql.Identifier(f"tablebell_{service}"), sql.Literal(password)))


def add_demo_data(url: str) -> None:
    with connect(url) as connection:
        connection.execute(read_script("demo_data.sql").encode())
