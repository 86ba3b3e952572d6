"""The ids that accompany a request through every level: the correlation id and the W3C traceparent.

They are set where work enters (an HTTP request, a message, a claimed row), appear in every log line, and are written
into every resulting row and message.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Self

from structlog.contextvars import bound_contextvars

CORRELATION_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class Correlation:
    correlation_id: str
    traceparent: str

    @classmethod
    def begin(cls, correlation_id: str | None = None, traceparent: str | None = None) -> Self:
        """Continue with the ids that a caller sent if they are well formed; generate the others."""
        if correlation_id is None or not CORRELATION_ID.fullmatch(correlation_id):
            correlation_id = secrets.token_hex(16)
        if traceparent is None or not TRACEPARENT.fullmatch(traceparent):
            traceparent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        return cls(correlation_id, traceparent)

    @classmethod
    def from_headers(cls, headers: Mapping[str, object]) -> Self:
        """Read what `as_headers` wrote."""
        correlation_id, traceparent = headers.get("correlation_id"), headers.get("traceparent")
        return cls.begin(
            correlation_id if isinstance(correlation_id, str) else None,
            traceparent if isinstance(traceparent, str) else None,
        )

    def as_headers(self) -> dict[str, str]:
        return {"correlation_id": self.correlation_id, "traceparent": self.traceparent}


_current: ContextVar[Correlation | None] = ContextVar("correlation", default=None)


def current() -> Correlation:
    """The current correlation, or a new one."""
    return _current.get() or Correlation.begin()


@contextmanager
def correlated(correlation: Correlation) -> Iterator[Correlation]:
    token = _current.set(correlation)
    with bound_contextvars(correlation_id=correlation.correlation_id):
        try:
            yield correlation
        finally:
            _current.reset(token)
