"""Without a collector nothing changes; tests/e2e covers tracing with one."""

import subprocess
import sys

from pamqp.commands import Basic

from tablebell import tracing
from tablebell.correlation import Correlation, current

SENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def test_without_a_collector_the_correlation_is_unchanged() -> None:
    came = Correlation.from_headers(SENT)
    with tracing.traced(came, "anything", SENT) as correlation:
        assert correlation is came
        assert current() is came


def test_without_a_collector_messages_are_neither_copied_nor_changed() -> None:
    properties = Basic.Properties(headers=dict(SENT))
    with tracing.publishing("exchange", properties) as published:
        assert published is properties
    assert properties.headers == SENT
    with tracing.handling("queue", [SENT]) as headers:
        assert headers is None


def test_without_a_collector_nothing_of_the_sdk_is_loaded() -> None:
    program = (
        "import sys; from tablebell.tracing import configure_tracing; configure_tracing('test', '');"
        "sys.exit(any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
