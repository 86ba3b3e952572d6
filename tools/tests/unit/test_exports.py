import subprocess

from tablebell_tools.exports import render


def test_a_shell_reads_back_every_value_unchanged() -> None:
    value = "postgresql://a:b'c\"d$HOME`id`@h/x y"

    script = render({"DATABASE_URL": value}) + '\nprintf %s "$DATABASE_URL"'

    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == value
