from tablebell_migrations.script import run_script

revision = "0080"
down_revision = "0040"


def upgrade() -> None:
    run_script("0080_closed_doors.sql")
