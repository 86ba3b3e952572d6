from tablebell_migrations.script import run_script

revision = "0010"
down_revision = "0003"


def upgrade() -> None:
    run_script("0010_inbox.sql")
