"""Structured logs: one JSON object per line, coloured text on a terminal.

Events are snake_case verbs (`event_published`); all other data are keys. Ids are bound once, with
`structlog.contextvars`, and appear in every line of that context. E-mail addresses and telephone numbers are masked.
"""

import logging
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SHARED: tuple[Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)

# Providers repeat addresses in their answers. A telephone number has a plus sign, or nine digits in a row.
EMAIL_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\"'=/]+@([^\s@<>()\[\],;:\"'=/]+)")
PHONE_NUMBER = re.compile(r"(?<![\w+-])(?:\+\d(?:[ ()./-]{0,2}\d){6,14}|\d{9,15})(?![\w-])")
MASK = "***"


def mask_addresses(text: str) -> str:
    """Replaces the local part of e-mail addresses, and telephone numbers."""
    text = EMAIL_ADDRESS.sub(rf"{MASK}@\1", text) if "@" in text else text
    return PHONE_NUMBER.sub(MASK, text)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_addresses(value)
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list | tuple) else value


def _mask_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _masked(value) for key, value in event.items()}


# Tracebacks without local variables, which include tokens and addresses.
TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logs(service: str, level: str = "INFO") -> None:
    """Send structlog and the standard library's loggers through one formatter to standard output."""
    as_json: list[Processor] = [TRACEBACKS, _mask_event, structlog.processors.JSONRenderer()]
    as_text: list[Processor] = [_mask_event, structlog.dev.ConsoleRenderer()]
    rendering = as_text if sys.stdout.isatty() else as_json

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
