"""Revisions are SQL files: what runs in the database is read as SQL, not as Python that makes SQL."""

from importlib.resources import files

from alembic import op


def read_script(name: str) -> str:
    return (files("tablebell_migrations") / "sql" / name).read_text(encoding="utf-8")


def run_script(name: str) -> None:
    # The driver's own cursor, without parameters: the text goes out as it is, and a percent sign means itself.
    op.get_bind().connection.cursor().execute(read_script(name))
