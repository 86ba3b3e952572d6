"""Log lines contain no secrets and no addresses."""

import subprocess
import sys

import pytest

from tablebell.logs import mask_addresses

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


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "RCPT: 550 5.1.1 <anna.bianchi@mail.example>: User unknown",
            "RCPT: 550 5.1.1 <***@mail.example>: User unknown",
        ),
        ("550 zoë@müller.example unknown", "550 ***@müller.example unknown"),
        ("to=anna+tables@mail.example, a@b.example", "to=***@mail.example, ***@b.example"),
        (
            "The 'To' number +393331234567 is not a valid phone number.",
            "The 'To' number *** is not a valid phone number.",
        ),
        ("call +39 333 123-4567 or +1 (555) 867.5309", "call *** or ***"),
        ("The 'To' number 5551234567 is not valid", "The 'To' number *** is not valid"),
    ],
)
def test_addresses_are_masked(text: str, masked: str) -> None:
    assert mask_addresses(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-18T08:55:05.123456Z",
        "HTTP 429 20429: Too Many Requests",
        "4f1c2a3b-0000-4000-8000-123456789012",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "AC00000000000000000000000000000000",
        "192.168.100.200:54321",
        "reservation 12345678 version 3",
    ],
)
def test_ids_times_and_codes_are_not_masked(text: str) -> None:
    assert mask_addresses(text) == text


MASKED = """
import structlog
from tablebell.logs import configure_logs

configure_logs("test")
try:
    raise ValueError("no such user anna@mail.example")
except ValueError:
    more = [{"to": "+393331234567"}]
    structlog.get_logger().exception("work_failed", error="550 anna@mail.example", more=more, number=3)
"""


def test_addresses_are_masked_in_every_value_and_in_exceptions() -> None:
    line = subprocess.run([sys.executable, "-c", MASKED], capture_output=True, text=True, check=True).stdout
    assert "anna" not in line
    assert "333123" not in line
    assert line.count("***@mail.example") == 2
    assert '"number": 3' in line
