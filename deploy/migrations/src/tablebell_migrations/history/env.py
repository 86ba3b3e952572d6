"""Alembic's entry point: all revisions run in one transaction, under one lock.

Of two concurrent runs the second waits for the lock and then finds nothing to do. A run that is killed changes nothing.
"""

from alembic import context
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

# An arbitrary number that nothing else in this database uses.
MIGRATION_LOCK = 7_203_114

# A URL of SQLAlchemy cannot name several servers, a URL of libpq can.
engine = create_engine("postgresql+psycopg://", creator=context.config.attributes["connect"], poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, transactional_ddl=True)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        context.run_migrations()
