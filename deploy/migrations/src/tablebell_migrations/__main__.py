"""`python -m tablebell_migrations upgrade`, `… demo-data`. DATABASE_URL is the owner's."""

import argparse
import logging
import os
import sys

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from tablebell_migrations import database


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tablebell_migrations", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("upgrade", help="bring the schema up to date and set the service roles' passwords")
    commands.add_parser("demo-data", help="add the people and restaurants of the demo")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    url = os.environ.get("DATABASE_URL")
    if not url:
        sys.stderr.write("DATABASE_URL is missing: the address of the database, with its owner's name and password\n")
        return 2
    try:
        if arguments.command == "upgrade":
            database.upgrade(url)
            database.set_passwords(url, passwords_from(os.environ))
        else:
            database.add_demo_data(url)
    except (psycopg.Error, SQLAlchemyError) as error:
        # SQLAlchemy's message repeats the whole script; what PostgreSQL said is enough.
        sys.stderr.write(f"{arguments.command} failed: {getattr(error, 'orig', error)}\n")
        return 1
    return 0


def passwords_from(environment: os._Environ[str]) -> dict[str, str]:
    named = {role: environment.get(f"{role.upper()}_DB_PASSWORD", "") for role in database.SERVICE_ROLES}
    return {role: password for role, password in named.items() if password}


if __name__ == "__main__":
    sys.exit(main())
