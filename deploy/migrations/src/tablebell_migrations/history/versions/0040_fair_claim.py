from tablebell_migrations.script import run_script

revision = "0040"
down_revision = "0010"


def upgrade() -> None:
    run_script("0040_fair_claim.sql")
