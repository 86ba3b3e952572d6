"""Each revision runs one SQL file."""

from importlib.resources import files

from alembic import op


def read_script(name: str) -> str:
    return (files("tablebell_migrations") / "sql" / name).read_text(encoding="utf-8")


def run_script(name: str) -> None:
    # Use the driver's cursor without parameters, so that a percent sign in the script has no special meaning.
    op.get_bind().connection.cursor().execute(read_script(name))
