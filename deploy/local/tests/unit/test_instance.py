import asyncio
from pathlib import Path

import pytest

from tablebell_local.errors import CommandError
from tablebell_local.instance import Instance


@pytest.mark.parametrize("name", ["", "..", ".uv", "a/b", "Dev", "x" * 32])
def test_a_name_that_could_leave_the_state_directory_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a valid instance name"):
        Instance.named(name, tmp_path)


def test_clones_of_the_project_do_not_share_a_label(tmp_path: Path) -> None:
    assert Instance.named("dev", tmp_path / "a").label != Instance.named("dev", tmp_path / "b").label


async def test_only_one_command_at_a_time_changes_an_instance(tmp_path: Path) -> None:
    order = []

    async def change(name: str) -> None:
        async with Instance.named("dev", tmp_path).locked():
            order.append(f"{name} begins")
            await asyncio.sleep(0.1)
            order.append(f"{name} ends")

    await asyncio.gather(change("a"), change("b"))

    assert order in (
        ["a begins", "a ends", "b begins", "b ends"],
        ["b begins", "b ends", "a begins", "a ends"],
    )


async def test_waiting_for_the_lock_has_a_limit(tmp_path: Path) -> None:
    instance = Instance.named("dev", tmp_path)
    async with instance.locked():
        with pytest.raises(CommandError, match="another command"):
            async with instance.locked(seconds=0.1):
                pass
