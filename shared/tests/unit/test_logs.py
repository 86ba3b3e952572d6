"""Log lines contain no secrets."""

import subprocess
import sys

SCRIPT = """
import structlog
from tablebell.logs import configure_logs

configure_logs("test")
def fail(password):
    raise ValueError("it broke")
try:
    fail("hunter2-hunter2")
except ValueError:
    structlog.get_logger().exception("work_failed")
"""


def test_an_exception_is_logged_without_local_variables() -> None:
    line = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    assert '"event": "work_failed"' in line
    assert "it broke" in line
    assert '"name": "fail"' in line
    assert "hunter2" not in line
