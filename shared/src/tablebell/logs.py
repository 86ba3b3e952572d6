"""Structured logs: one JSON object per line, coloured text on a terminal.

Events are snake_case verbs (`event_published`); all other data are keys. Ids are bound once, with
`structlog.contextvars`, and appear in every line of that context.
"""

import logging
import sys

import structlog
from structlog.typing import Processor

SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)

# Tracebacks without local variables, which include tokens and addresses.
TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logs(service: str, level: str = "INFO") -> None:
    """Send structlog and the standard library's loggers through one formatter to standard output."""
    as_json: list[Processor] = [TRACEBACKS, structlog.processors.JSONRenderer()]
    rendering: list[Processor] = [structlog.dev.ConsoleRenderer()] if sys.stdout.isatty() else as_json

    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # The services log the same facts, once and with the ids.
    for noisy in ("aiormq", "aio_pika", "httpx", "httpcore", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    structlog.contextvars.bind_contextvars(service=service)
