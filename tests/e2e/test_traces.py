"""With a collector, one trace goes from the request to the providers' answers; batches are linked to it."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg
import httpx
import pytest
from bench.harness import Harness
from bench.running import Running, running_system

from tablebell.testing import Servers, eventually
from tablebell.testing.collector import Collector, collecting
from tablebell.topology import EVENT_QUEUES
from tablebell_tools.tokens import TokenIssuer

pytestmark = pytest.mark.timeout(120)

TRACE, ASKER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EVENT_SPANS = {f"handle {queue}" for queue in EVENT_QUEUES.values()}
# Of a customer of an agency, at a restaurant with three staff. The two admins share a Slack webhook.
SENDS = {"send EMAIL": 7, "send SMS": 4, "send PUSH": 4, "send SLACK": 1}


@dataclass(frozen=True, slots=True)
class TracedRun:
    """The spans of two reservations: one requested with a trace context, one without."""

    collector: Collector
    correlation_id: str
    """Of the first reservation."""


@pytest.fixture(scope="module")
def traced(servers: Servers, template: str) -> Iterator[TracedRun]:
    async def run_reservations(collector: Collector) -> str:
        async with running_system(Harness(servers, template, "traces", time.monotonic())) as running:
            answer = await ask(running, "2027-11-14T20:00:00", {"traceparent": f"00-{TRACE}-{ASKER}-01"})
            await eventually(lambda: len(collector.of(TRACE, "send ")) == sum(SENDS.values()), within=60)
            await ask(running, "2027-11-15T20:00:00", {})
            await eventually(
                lambda: sum(span.name.startswith("send ") for span in collector.spans) == 2 * sum(SENDS.values()),
                within=60,
            )
        return answer.headers["X-Correlation-Id"]  # the services export the remaining spans when they stop

    with collecting() as collector, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield TracedRun(collector, asyncio.run(run_reservations(collector)))


async def ask(running: Running, slot: str, headers: dict[str, str]) -> httpx.Response:
    token = TokenIssuer(running.environment.signing_key).issue("customer:5")
    body = {"customerId": 5, "restaurantId": 10, "partySize": 4, "slotTime": slot}
    async with httpx.AsyncClient(base_url=running.api, timeout=30) as http:
        answer = await http.post(
            "/customer/reservation/ask", json=body, headers=headers | {"Authorization": f"Bearer {token}"}
        )
    assert answer.status_code == 200, answer.text
    return answer


def test_one_trace_goes_from_the_request_to_every_providers_answer(traced: TracedRun) -> None:
    (request,) = traced.collector.of(TRACE, "POST /customer/reservation/ask")
    assert (request.service, request.parent) == ("reservation-api", ASKER)
    assert request.attributes["correlation_id"] == traced.correlation_id

    (publish,) = traced.collector.of(TRACE, "publish RESERVATION_REQUESTED")
    assert (publish.service, publish.parent) == ("event-relay", request.id)

    handled = traced.collector.of(TRACE, "handle event-stream.")
    assert sorted(span.name.rpartition(".")[2] for span in handled) == ["admin", "agency", "customer", "restaurant"]
    assert {span.parent for span in handled} == {publish.id}

    sent = traced.collector.of(TRACE, "send ")
    assert Counter(span.name for span in sent) == SENDS
    assert {span.parent for span in sent} == {span.id for span in handled}
    assert {(span.attributes["result"], span.failed) for span in sent} == {("SENT", False)}


def test_a_request_without_a_trace_starts_one(traced: TracedRun) -> None:
    first = [span for span in traced.collector.named("POST /customer/reservation/ask") if not span.parent]
    (request,) = first
    assert request.trace != TRACE
    assert len(traced.collector.of(request.trace, "send ")) == sum(SENDS.values())


def test_a_batch_of_a_listener_and_its_messages_are_linked_both_ways(traced: TracedRun) -> None:
    batches = [span for span in traced.collector.spans if span.name.endswith(", batch")]
    handled = [span for span in traced.collector.spans if span.name in EVENT_SPANS]
    published = traced.collector.named("publish RESERVATION_REQUESTED")
    assert {link for span in batches for link in span.links} == {span.id for span in published}
    assert {link for span in handled for link in span.links} == {span.id for span in batches}


def test_an_expansion_is_linked_to_its_events_and_leads_to_the_sockets(traced: TracedRun) -> None:
    handled = [span for span in traced.collector.spans if span.name in EVENT_SPANS]
    assert {link for span in traced.collector.named("expand") for link in span.links} == {span.id for span in handled}
    delivered = traced.collector.named("deliver frames")
    assert {span.service for span in delivered} == {"ws-gateway"}
    assert {traced.collector.parent(traced.collector.parent(span)).name for span in delivered} == {"expand"}


async def test_an_unreachable_collector_blocks_neither_work_nor_shutdown(
    servers: Servers, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with running_system(Harness(servers, template, "traces", time.monotonic())) as running:
            await ask(running, "2027-11-14T20:00:00", {})
            database = await asyncpg.connect(running.environment.database.url.get_secret_value())
            sent = "SELECT count(*) = $1 FROM notification_channel_send WHERE is_sent"
            await eventually(lambda: database.fetchval(sent, sum(SENDS.values())), within=60, every=0.1)
            await database.close()
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert {process.exit_code for process in running.processes.values()} == {0}
