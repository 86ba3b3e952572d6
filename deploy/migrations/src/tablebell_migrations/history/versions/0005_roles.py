from tablebell_migrations.script import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    run_script("0005_roles.sql")
