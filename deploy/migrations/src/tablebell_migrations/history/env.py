"""Alembic's entry: every revision in one transaction, under one lock.

Two that start at once are safe: the second waits for the lock, then finds nothing to do. Killed at any line,
nothing has happened.
"""

from alembic import context
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

# Any number will do, so long as nothing else in this database locks it.
MIGRATION_LOCK = 7_203_114

# SQLAlchemy's own URLs cannot name several servers as libpq's do.
engine = create_engine("postgresql+psycopg://", creator=context.config.attributes["connect"], poolclass=NullPool)
with engine.connect() as connection:
    context.configure(connection=connection, transactional_ddl=True)
    with context.begin_transaction():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": MIGRATION_LOCK})
        context.run_migrations()
