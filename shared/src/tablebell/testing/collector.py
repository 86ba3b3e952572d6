"""A fake OpenTelemetry collector: it receives OTLP over HTTP and stores the decoded spans."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status


@dataclass(frozen=True, slots=True)
class Seen:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    """Empty for the first span of a trace."""
    links: frozenset[str]
    """The ids of the linked spans."""
    attributes: dict[str, str]
    failed: bool


class Collector:
    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.spans: list[Seen] = []

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _values(resource.resource.attributes)["service.name"]
            self.spans += [
                Seen(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    frozenset(link.span_id.hex() for link in span.links),
                    _values(span.attributes),
                    span.status.code == Status.STATUS_CODE_ERROR,
                )
                for scope in resource.scope_spans
                for span in scope.spans
            ]

    def of(self, trace: str, name: str = "") -> list[Seen]:
        return [span for span in self.spans if span.trace == trace and span.name.startswith(name)]

    def parent(self, span: Seen) -> Seen:
        return next(other for other in self.spans if (other.trace, other.id) == (span.trace, span.parent))

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _values(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {each.key: each.value.string_value or str(each.value.int_value) for each in attributes}
