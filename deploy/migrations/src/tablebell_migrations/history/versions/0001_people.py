from tablebell_migrations.script import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    run_script("0001_people.sql")
