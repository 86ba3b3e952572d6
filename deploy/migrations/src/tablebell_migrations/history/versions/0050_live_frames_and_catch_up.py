from tablebell_migrations.script import run_script

revision = "0050"
down_revision = "0040"


def upgrade() -> None:
    run_script("0050_live_frames_and_catch_up.sql")
