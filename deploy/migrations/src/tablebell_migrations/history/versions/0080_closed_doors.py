from tablebell_migrations.script import run_script

revision = "0080"
down_revision = "0070"


def upgrade() -> None:
    run_script("0080_closed_doors.sql")
