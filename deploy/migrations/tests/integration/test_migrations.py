"""The migrations can run again and at the same time, and each role has only the rights of its service."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database, Servers

TABLES = {
    "reservation", "event_outbox", "processed_event", "event_notification", "notification", "notification_restaurant",
    "notification_customer", "notification_admin", "notification_agency", "notification_outbox",
    "notification_channel_send", "notification_action", "customer", "restaurant_users", "admin_users", "agency_users",
}  # fmt: skip


@pytest.fixture
async def empty_database(servers: Servers) -> AsyncIterator[str]:
    name = f"empty_{uuid.uuid4().hex[:12]}"
    owner = await asyncpg.connect(servers.database_url)
    await owner.execute(f'CREATE DATABASE "{name}"')
    yield urlunsplit(urlsplit(servers.database_url)._replace(path="/" + name))
    await owner.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await owner.close()


async def migrate(url: str | None, command: str = "upgrade") -> tuple[int | None, str]:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tablebell_migrations", command,
        env=environment | ({"DATABASE_URL": url} if url else {}),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_concurrent_migrations_create_the_schema_once(empty_database: str) -> None:
    results = await asyncio.gather(*(migrate(empty_database) for _ in range(3)))
    assert [code for code, _ in results] == [0, 0, 0], results
    assert sum("Running upgrade  -> 0001" in output for _, output in results) == 1
    connection = await asyncpg.connect(empty_database)
    found = {row[0] for row in await connection.fetch("SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')")}
    await connection.close()
    assert found >= TABLES


async def test_again_changes_nothing(empty_database: str) -> None:
    await migrate(empty_database)
    code, output = await migrate(empty_database)
    assert code == 0
    assert "Running upgrade" not in output


async def test_the_demo_data_can_be_added_again(empty_database: str) -> None:
    await migrate(empty_database)
    for _ in range(2):
        code, output = await migrate(empty_database, "demo-data")
        assert code == 0, output
    connection = await asyncpg.connect(empty_database)
    assert await connection.fetchval("SELECT array_agg(id ORDER BY id) FROM restaurant_users") == [50, 51, 52, 60]
    new = await connection.fetchval("INSERT INTO customer (name) VALUES ('new') RETURNING id")
    await connection.close()
    assert new >= 1000, "the sequence must not return an id of the demo data"


async def test_a_missing_database_url_is_reported() -> None:
    code, output = await migrate(None)
    assert code == 2
    assert "DATABASE_URL is missing" in output


async def test_an_unreachable_database_is_reported_without_a_traceback() -> None:
    code, output = await migrate("postgresql://nobody:nothing@127.0.0.1:1/nowhere")
    assert code == 1
    assert "Connection refused" in output
    assert "Traceback" not in output


async def run_as(database: Database, service: str, statement: str) -> None:
    connection = await asyncpg.connect(database.url_of(service).get_secret_value())
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("service", "statement"),
    [
        ("event_relay", "SELECT FROM customer"),
        ("event_relay", "SELECT FROM person"),
        ("event_relay", "SELECT FROM reservation"),
        ("event_relay", "INSERT INTO event_outbox (event_type) VALUES ('X')"),
        ("event_relay", "SELECT FROM notification"),
        ("notification_fanout", "INSERT INTO reservation DEFAULT VALUES"),
        ("notification_fanout", "SELECT last_error FROM event_outbox"),
        ("notification_fanout", "SELECT lease_token FROM event_outbox"),
        ("notification_fanout", "UPDATE event_outbox SET status = 'PENDING'"),
        ("notification_fanout", "DELETE FROM event_outbox"),
        ("event_relay", "SELECT FROM live_frame"),
        ("reservation_api", "SELECT FROM listener_catch_up"),
        ("notification_fanout", "UPDATE customer SET name = 'x'"),
        ("channel_dispatcher", "SELECT FROM customer"),
        ("channel_dispatcher", "SELECT FROM reservation"),
        ("channel_dispatcher", "SELECT FROM person"),
        ("channel_dispatcher", "INSERT INTO notification_channel_send DEFAULT VALUES"),
        ("event_relay", "SELECT count_addresses('EMAIL')"),
        ("reservation_api", "UPDATE undeliverable_address SET reason = 'x'"),
        ("reservation_api", "DELETE FROM event_outbox"),
        ("reservation_api", "DELETE FROM reservation"),
        ("reservation_api", "INSERT INTO notification DEFAULT VALUES"),
        ("reservation_api", "CREATE TABLE mine ()"),
        ("reservation_api", "DELETE FROM customer"),
        ("reservation_api", "DELETE FROM restaurant"),
        ("reservation_api", "UPDATE management_change SET act = 'CHANGE'"),
        ("reservation_api", "DELETE FROM management_change"),
    ],
)
async def test_a_service_lacks_the_rights_it_does_not_need(database: Database, service: str, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await run_as(database, service, statement)


@pytest.mark.parametrize(
    ("service", "statement"),
    [
        ("reservation_api", "SELECT FROM person"),
        ("reservation_api", "SELECT FROM notification_channel_send"),
        ("event_relay", "UPDATE event_outbox SET last_error = NULL"),
        ("event_relay", "DELETE FROM event_outbox"),
        ("notification_fanout", "SELECT FROM person"),
        ("notification_fanout", "SELECT id, payload FROM event_outbox WHERE status = 'PUBLISHED'"),
        ("channel_dispatcher", "UPDATE notification_channel_send SET last_error = NULL"),
        ("channel_dispatcher", "SELECT count_addresses('EMAIL')"),
        ("reservation_api", "DELETE FROM undeliverable_address"),
    ],
)
async def test_a_service_has_the_rights_it_needs(database: Database, service: str, statement: str) -> None:
    await run_as(database, service, statement)


async def test_no_role_has_special_privileges(pool: Pool) -> None:
    roles = await pool.fetch("SELECT * FROM pg_roles WHERE rolname LIKE 'tablebell\\_%'")
    assert len(roles) == 4, "ws-gateway has no database"
    for role in roles:
        assert not any(role[power] for power in ("rolsuper", "rolcreaterole", "rolcreatedb", "rolbypassrls"))


@pytest.mark.parametrize("table", ["event_outbox", "notification_outbox", "notification_channel_send"])
async def test_the_outboxes_have_a_fillfactor_and_early_autovacuum(pool: Pool, table: str) -> None:
    options = dict(
        option.split("=") for option in await pool.fetchval("SELECT reloptions FROM pg_class WHERE relname = $1", table)
    )
    assert int(options["fillfactor"]) < 100
    assert float(options["autovacuum_vacuum_scale_factor"]) <= 0.05
