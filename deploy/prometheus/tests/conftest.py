import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus's own checker: installed if it may be, else the test is skipped and says why."""
    installing = subprocess.run(
        [DEPLOY / "local" / "bootstrap", "promtool"], capture_output=True, text=True, check=False, timeout=240
    )
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(f"promtool is not installed: {' '.join(installing.stderr.split())[-300:]}")
    return program
