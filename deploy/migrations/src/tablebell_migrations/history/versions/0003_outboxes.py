from tablebell_migrations.script import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    run_script("0003_outboxes.sql")
