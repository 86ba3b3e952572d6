from tablebell_migrations.script import run_script

revision = "0070"
down_revision = "0060"


def upgrade() -> None:
    run_script("0070_delivery_order.sql")
