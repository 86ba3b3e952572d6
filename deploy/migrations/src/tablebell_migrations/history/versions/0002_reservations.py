from tablebell_migrations.script import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    run_script("0002_reservations.sql")
