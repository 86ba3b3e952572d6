"""The Prometheus metrics of channel-dispatcher, per channel. The gauges of L2 are in `tablebell.outbox.gauges`."""

from prometheus_client import Counter, Gauge, Histogram

OUTCOMES = Counter(
    "dispatcher_outcomes_total",
    "Outcomes of attempts and rows: sent, retry, throttled, down, untried, undeliverable, exhausted, expired, "
    "skipped, withdrawn, lost (another process took over the lease).",
    ["channel", "outcome"],
)
PROVIDER_SECONDS = Histogram(
    "dispatcher_provider_seconds",
    "Duration of a call to the provider.",
    ["channel"],
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)
BREAKER_STATE = Gauge(
    "dispatcher_breaker_state",
    "1 for the current state of the channel's breaker: closed, half_open, open, throttled.",
    ["channel", "state"],
)
IN_FLIGHT = Gauge("dispatcher_in_flight", "Rows claimed by this process without an outcome yet.", ["channel"])
WITHDRAWN = Gauge(
    "dispatcher_withdrawn",
    "Rows withdrawn before they were sent, within the retention, of the whole table: every replica reports the same.",
    ["channel"],
)
MARKS = Counter(
    "dispatcher_address_marks_total",
    "Addresses that a provider reported as dead, by effect: silences, or withheld (too many of the channel at once).",
    ["channel", "effect"],
)
SMS_LAST_DAY = Gauge(
    "dispatcher_sms_last_day",
    "SMS of the last 24 hours, if there is a limit: every replica reports the same.",
)
SMS_PER_DAY = Gauge("dispatcher_sms_per_day", "The limit of SMS in 24 hours; 0 is no limit.")
