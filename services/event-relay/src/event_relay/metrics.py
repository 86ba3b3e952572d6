"""The Prometheus metrics of event-relay. The gauges of the outbox are in `tablebell.outbox.gauges`."""

from prometheus_client import Counter, Gauge, Histogram

FINE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
WIDE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

OWNED = Gauge("relay_partitions_owned", "Partitions that this relay owns.")
IN_FLIGHT = Gauge("relay_in_flight", "Claimed events without an outcome.")

PUBLISHED = Counter("relay_published_total", "Events that the broker has confirmed.")
FAILURES = Counter("relay_failures_total", "Events that were not published, by kind.", ["kind"])
CONFIRM_SECONDS = Histogram("relay_confirm_seconds", "Time from publish to confirm.", buckets=FINE)
PUBLISH_SECONDS = Histogram("relay_publish_seconds", "Time from when an event is due to its confirm.", buckets=WIDE)
