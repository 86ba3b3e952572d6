import subprocess
from pathlib import Path

import pytest

from tablebell_local.exports import addresses, render
from tablebell_local.failure import Failure
from tablebell_local.instance import Instance
from tablebell_local.system import System


def test_a_shell_reads_back_every_value_as_it_is() -> None:
    value = "postgresql://a:b'c\"d$HOME`id`@h/x y"

    script = render({"DATABASE_URL": value}) + '\nprintf %s "$DATABASE_URL"'

    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == value


def test_a_stopped_system_has_no_addresses_and_says_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"postgres.*not running.*make up"):
        addresses(System(Instance.named("dev", tmp_path)))
    assert list(tmp_path.iterdir()) == []  # asking leaves nothing behind
