from tablebell_migrations.script import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    run_script("0004_inbox_and_limits.sql")
