"""What channel-dispatcher tells Prometheus, per channel."""

from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = Counter(
    "dispatcher_outcomes_total",
    "What became of attempts and rows: sent, retry, throttled, down, untried, undeliverable, exhausted, expired, "
    "skipped, withdrawn, lost (the lease had passed to another).",
    ["channel", "outcome"],
)
PROVIDER_SECONDS = Histogram(
    "dispatcher_provider_seconds",
    "How long the provider took to answer.",
    ["channel"],
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)
BREAKER_STATE = Gauge(
    "dispatcher_breaker_state",
    "1 for the state in which the channel's breaker is: closed, half_open, open, throttled.",
    ["channel", "state"],
)
ROWS = Gauge(
    "dispatcher_rows",
    "Rows that are open or dead, by status; of the whole table, so the same from every replica.",
    ["status"],
)
IN_FLIGHT = Gauge("dispatcher_in_hand", "Rows claimed by this process and not yet answered for.", ["channel"])
OLDEST_DUE_SECONDS = Gauge(
    "dispatcher_oldest_due_seconds",
    "For how long the oldest due row has been due; of the whole table, so the same from every replica.",
    ["channel"],
)
OVERDUE_SECONDS = Gauge(
    "dispatcher_overdue_seconds",
    "How long ago the oldest open row was first due, however often it was put off since; of the whole table, so the "
    "same from every replica.",
    ["channel"],
)
WITHDRAWN = Gauge(
    "dispatcher_withdrawn",
    "Rows withdrawn before they were sent, within the retention; of the whole table, so the same from every replica.",
    ["channel"],
)
MARKS = Counter(
    "dispatcher_address_marks_total",
    "Addresses that a provider called dead, by effect: silences, or withheld (too many of the channel at once).",
    ["channel", "effect"],
)
