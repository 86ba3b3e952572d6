"""A short run of `make chaos`, on the system that the other tests use."""

import asyncio
import sys

import pytest
from chaos.environment import ChaosEnvironment
from tests.e2e.conftest import INSTANCE, OVERRIDES


@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_nothing_is_lost_while_everything_is_killed_and_restarted_under_load(
    environment: ChaosEnvironment,
) -> None:
    settings = [word for name, value in OVERRIDES.items() for word in ("--set", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "chaos", "--attach", "--instance", INSTANCE, "--seed", "7"),
        *("--duration", "12", "--rate", "5", *settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
