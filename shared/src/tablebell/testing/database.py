"""A database per test, copied from a migrated template: SKIP LOCKED and NOTIFY need real commits."""

import asyncio
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from pydantic import SecretStr

SERVICES = ("reservation_api", "event_relay", "notification_fanout", "channel_dispatcher")
ROLE_PASSWORD = "only-for-tests"


@dataclass(frozen=True, slots=True)
class Database:
    name: str
    url: SecretStr
    """The URL of the database's owner."""

    def url_of(self, service: str) -> SecretStr:
        """The URL of a service's role, with its own privileges."""
        parts = urlsplit(self.url.get_secret_value())
        _, _, hosts = parts.netloc.rpartition("@")
        return SecretStr(urlunsplit(parts._replace(netloc=f"tablebell_{service}:{ROLE_PASSWORD}@{hosts}")))

    def at(self, *ports: int) -> "Database":
        """The same database on other local servers, without options in the URL."""
        parts = urlsplit(self.url.get_secret_value())
        login, _, _ = parts.netloc.rpartition("@")
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return Database(self.name, SecretStr(urlunsplit(parts._replace(netloc=f"{login}@{hosts}", query=""))))


def make_database(cluster_url: str) -> Database:
    """Create a migrated database with the demo users, in a cluster of the test."""
    name = make_template(cluster_url)
    return Database(name, SecretStr(_on(cluster_url, name)))


def make_template(cluster_url: str) -> str:
    """Create a template with migrations and demo data; returns its name."""
    name = f"template_{uuid.uuid4().hex[:12]}"
    asyncio.run(_administer(cluster_url, f'CREATE DATABASE "{name}"'))
    environment = {
        **os.environ,
        "DATABASE_URL": _on(cluster_url, name),
        **{f"{service.upper()}_DB_PASSWORD": ROLE_PASSWORD for service in SERVICES},
    }
    for command in ("upgrade", "demo-data"):
        subprocess.run([sys.executable, "-m", "tablebell_migrations", command], env=environment, check=True)
    return name


async def copy_template(cluster_url: str, template: str) -> Database:
    name = f"test_{uuid.uuid4().hex[:12]}"
    await _administer(cluster_url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return Database(name, SecretStr(_on(cluster_url, name)))


async def drop(cluster_url: str, name: str) -> None:
    await _administer(cluster_url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


async def _administer(cluster_url: str, statement: str) -> None:
    connection = await asyncpg.connect(cluster_url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _on(cluster_url: str, database: str) -> str:
    return urlunsplit(urlsplit(cluster_url)._replace(path="/" + database))
