"""The migrations can run again and at the same time, and each role has only the rights of its service."""

import asyncio
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterable
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database, Servers

SERVICES = ("reservation_api", "event_relay", "notification_fanout", "channel_dispatcher")
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


FORBIDDEN = [
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
    ("reservation_api", "DELETE FROM notification"),
    ("reservation_api", "SELECT FROM purge_horizon"),
    ("event_relay", "DELETE FROM purge_horizon"),
    ("reservation_api", "DELETE FROM reservation"),
    ("reservation_api", "INSERT INTO notification DEFAULT VALUES"),
    ("reservation_api", "CREATE TABLE mine ()"),
    ("reservation_api", "UPDATE customer SET id = 1"),
    ("reservation_api", "DELETE FROM customer"),
    ("reservation_api", "DELETE FROM restaurant"),
    # What people did is on record: insert-only.
    *(
        (service, f"{statement} {table}{rest}")
        for service in SERVICES
        for table, column in (
            ("notification_action", "actor_id"),
            ("outbox_intervention", "actor_id"),
            ("admin_read", "actor_id"),
            ("management_change", "actor_id"),
        )
        for statement, rest in (("UPDATE", f" SET {column} = 1"), ("DELETE FROM", ""), ("TRUNCATE", ""))
    ),
    ("reservation_api", "INSERT INTO notification_action (created_at) VALUES (now())"),
    ("reservation_api", "SELECT FROM outbox_intervention"),
    ("reservation_api", "SELECT FROM admin_read"),
    # Nobody changes what a message says, or to whom it goes.
    *(
        (service, f"UPDATE notification_channel_send SET {column} = NULL")
        for service in SERVICES
        for column in ("recipient", "message", "user_id", "channel_type", "notification_id")
    ),
    ("reservation_api", "UPDATE notification SET body = 'x'"),
    ("reservation_api", "UPDATE event_notification SET properties = '{}'"),
    ("reservation_api", "UPDATE event_outbox SET payload = '{}'"),
    ("reservation_api", "UPDATE event_outbox SET published_at = now()"),
    ("reservation_api", "UPDATE reservation SET customer_id = 6"),
    ("reservation_api", "SELECT message FROM notification_channel_send"),
    ("event_relay", "UPDATE event_outbox SET payload = '{}'"),
    ("event_relay", "UPDATE event_outbox SET aggregate_id = 1"),
    ("notification_fanout", "SELECT note FROM reservation"),
    ("notification_fanout", "UPDATE notification SET body = 'x'"),
    ("notification_fanout", "UPDATE event_notification SET properties = '{}'"),
    ("notification_fanout", "UPDATE event_notification SET is_read = true"),
    ("notification_fanout", "SELECT message FROM notification_channel_send"),
    ("channel_dispatcher", "UPDATE channel_send_attempt SET started_at = now()"),
    ("channel_dispatcher", "DELETE FROM channel_send_attempt"),
    ("channel_dispatcher", "SELECT FROM notification_action"),
]
NEEDED = [
    ("reservation_api", "SELECT FROM person"),
    ("reservation_api", "SELECT FROM notification_channel_send"),
    ("event_relay", "UPDATE event_outbox SET last_error = NULL"),
    ("event_relay", "DELETE FROM event_outbox"),
    ("notification_fanout", "SELECT FROM person"),
    ("notification_fanout", "SELECT id, payload FROM event_outbox WHERE status = 'PUBLISHED'"),
    ("channel_dispatcher", "UPDATE notification_channel_send SET last_error = NULL"),
    ("channel_dispatcher", "SELECT count_addresses('EMAIL')"),
    ("reservation_api", "DELETE FROM undeliverable_address"),
]


async def permitted(database: Database, service: str, statements: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the service's statements that its role may execute. Nothing is changed."""
    connection = await asyncpg.connect(database.url_of(service).get_secret_value())
    done = []
    try:
        for statement in (text for name, text in statements if name == service):
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(statement)
                done.append(statement)
            except asyncpg.InsufficientPrivilegeError:
                pass
            finally:
                await transaction.rollback()
    finally:
        await connection.close()
    return done


@pytest.mark.parametrize("service", SERVICES)
async def test_a_service_has_the_rights_it_needs_and_no_others(database: Database, service: str) -> None:
    assert await permitted(database, service, FORBIDDEN) == []
    assert await permitted(database, service, NEEDED) == [text for name, text in NEEDED if name == service]


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
