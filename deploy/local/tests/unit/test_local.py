from pathlib import Path

import pytest

from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance
from tablebell_local.system import System


def test_addresses_of_a_stopped_system_fail_with_a_hint_and_create_no_files(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"postgres.*not running.*make up"):
        System(Instance.named("dev", tmp_path)).addresses()
    assert list(tmp_path.iterdir()) == []
