from tablebell_migrations.script import run_script

revision = "0060"
down_revision = "0050"


def upgrade() -> None:
    run_script("0060_no_row_stops_a_relay.sql")
