"""OpenTelemetry traces: a span where work enters, passes a level or leaves. Off without a collector's URL.

A row or message carries the span that wrote it as its traceparent. The span of its processing is a child of that span,
so that one trace reaches from the request to the provider's answer, across the outboxes. The processing of a batch is a
span of its own with a link to each item.

When tracing is off, every function here returns at once and changes nothing.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, Tracer
from pamqp.commands import Basic

from tablebell.correlation import TRACEPARENT, Correlation, correlated

__all__ = ["SpanKind", "annotate", "configure_tracing", "handling", "link", "publishing", "spanned", "traced"]

EXPORT_SECONDS = 3.0
"""The timeout of an export, so that a service that stops does not wait for the collector."""
MOST_LINKS = 5_000
"""The number of rows in the largest batch."""

Headers = Mapping[str, Any]


@dataclass(slots=True)
class _Switch:
    tracer: Tracer | None = None


_switch = _Switch()


def configure_tracing(service: str, endpoint: str) -> None:
    """Send traces to the collector at this base URL. Without a URL nothing is loaded and nothing is traced.

    Pending spans are sent when the process ends.
    """
    if not endpoint:
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - only if tracing is on
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_SECONDS)
    # Not the global provider: libraries would add spans to it.
    provider = TracerProvider(
        resource=Resource.create({"service.name": service}), span_limits=SpanLimits(max_links=MOST_LINKS)
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _switch.tracer = provider.get_tracer("tablebell")


def traced(
    correlation: Correlation, name: str, parent: Headers, kind: SpanKind = SpanKind.INTERNAL
) -> AbstractContextManager[Correlation]:
    """`correlated` within a span: a child of the span in `parent`, or the root of a new trace if it names none."""
    if _switch.tracer is None:
        return correlated(correlation)
    return _traced(_switch.tracer, correlation, name, parent, kind)


def spanned(
    name: str, parent: Headers | None = None, kind: SpanKind = SpanKind.INTERNAL
) -> AbstractContextManager[object]:
    """A span without a correlation: a child of the span in `parent`, or of the current span if `parent` is None."""
    if _switch.tracer is None:
        return nullcontext()
    context = None if parent is None else _context(parent)
    return _switch.tracer.start_as_current_span(name, context=context, kind=kind)


def publishing(exchange: str, properties: Basic.Properties) -> AbstractContextManager[Basic.Properties]:
    """A span around a publish. Yields the properties with that span as their traceparent."""
    if _switch.tracer is None:
        return nullcontext(properties)
    return _publishing(_switch.tracer, exchange, properties)


def handling(queue: str, batch: Sequence[Headers]) -> AbstractContextManager[Sequence[Headers] | None]:
    """A span for the batch and one per message, in the message's trace. Yields headers with these spans, or None."""
    if _switch.tracer is None:
        return nullcontext()
    return _handling(_switch.tracer, f"handle {queue}", batch)


def link(rows: Iterable[Headers]) -> None:
    """Link the current span to the spans of these rows."""
    if _switch.tracer is not None:
        for context in filter(None, map(_parse, rows)):
            trace.get_current_span().add_link(context)


def annotate(*, name: str | None = None, failed: bool = False, **attributes: str | float) -> None:
    """Complete the current span with what is known only at its end."""
    if _switch.tracer is None:
        return
    span = trace.get_current_span()
    if name is not None:
        span.update_name(name)
    if failed:
        span.set_status(StatusCode.ERROR)
    span.set_attributes(attributes)


@contextmanager
def _traced(
    tracer: Tracer, correlation: Correlation, name: str, parent: Headers, kind: SpanKind
) -> Iterator[Correlation]:
    attributes = {"correlation_id": correlation.correlation_id}
    with (
        tracer.start_as_current_span(name, context=_context(parent), kind=kind, attributes=attributes) as span,
        correlated(replace(correlation, traceparent=_format(span))) as own,
    ):
        yield own


@contextmanager
def _publishing(tracer: Tracer, exchange: str, properties: Basic.Properties) -> Iterator[Basic.Properties]:
    headers = properties.headers or {}
    attributes = {"messaging.system": "rabbitmq", "messaging.destination.name": exchange}
    if properties.correlation_id is not None:
        attributes["correlation_id"] = properties.correlation_id
    context = _context(headers) if "traceparent" in headers else None
    name = f"publish {properties.message_type or exchange}"
    with tracer.start_as_current_span(name, context=context, kind=SpanKind.PRODUCER, attributes=attributes) as span:
        own = copy.copy(properties)  # the caller may share one object between messages
        own.headers = {**headers, "traceparent": _format(span)}
        yield own


@contextmanager
def _handling(tracer: Tracer, name: str, batch: Sequence[Headers]) -> Iterator[Sequence[Headers]]:
    links = [Link(context) for context in map(_parse, batch) if context is not None]
    with tracer.start_as_current_span(
        f"{name}, batch", Context(), SpanKind.CONSUMER, {"messaging.batch.message_count": len(batch)}, links
    ) as batch_span:
        back = [Link(batch_span.get_span_context())]
        spans = [tracer.start_span(name, _context(headers), SpanKind.CONSUMER, links=back) for headers in batch]
        try:
            yield [{**headers, "traceparent": _format(span)} for headers, span in zip(batch, spans, strict=True)]
        finally:
            for span in spans:
                span.end()


def _context(headers: Headers) -> Context:
    """The context in which a new span is a child of the span in the headers, or the root of a new trace."""
    parent = _parse(headers)
    return Context() if parent is None else trace.set_span_in_context(NonRecordingSpan(parent), Context())


def _parse(headers: Headers) -> SpanContext | None:
    traceparent = headers.get("traceparent")
    if not isinstance(traceparent, str) or not TRACEPARENT.fullmatch(traceparent):
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _format(span: Span) -> str:
    own = span.get_span_context()
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"
