"""What event-relay tells Prometheus. The gauges on the table are brought up to date at each scrape."""

from prometheus_client import Counter, Gauge, Histogram

FINE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
WIDE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

ROWS = Gauge("relay_rows", "Events that are open or dead, by status.", ["status"])
OLDEST_PENDING = Gauge("relay_oldest_pending_seconds", "Age of the oldest event that waits, planned ones included.")
LAG = Gauge("relay_lag_seconds", "How long the oldest event that is due has been due; 0 when nothing waits.")
OVERDUE = Gauge(
    "relay_overdue_seconds", "How long ago the oldest open event was first due, however often it was put off since."
)
OWNED = Gauge("relay_partitions_owned", "Partitions that are this relay's.")
IN_FLIGHT = Gauge("relay_in_flight", "Events that were claimed and have no outcome yet.")

PUBLISHED = Counter("relay_published_total", "Events that the broker confirmed.")
FAILURES = Counter("relay_failures_total", "Events that were not published, by kind.", ["kind"])
CONFIRM_SECONDS = Histogram("relay_confirm_seconds", "From the publish to its confirm.", buckets=FINE)
PUBLISH_SECONDS = Histogram("relay_publish_seconds", "From when an event was due to its confirm.", buckets=WIDE)
PURGED = Counter("relay_purged_total", "Published events that were deleted after their retention.")
