"""The metrics of notification-fanout. The gauges of L1 are in `tablebell.outbox.gauges`."""

from prometheus_client import Counter, Histogram

LISTENER = ("listener",)

CONSUMED = Counter("fanout_consumed_total", "Messages handled", LISTENER)
CREATED = Counter("fanout_created_total", "Notifications created", LISTENER)
DUPLICATES = Counter("fanout_duplicates_total", "Messages skipped because their event had been processed", LISTENER)
OUT_OF_ORDER = Counter(
    "fanout_out_of_order_total",
    "Events that arrived after a later version of their reservation; they are processed as well",
    LISTENER,
)
DEAD = Counter("fanout_dead_total", "Messages moved to the dead queue", LISTENER)
BATCH_SIZE = Histogram(
    "fanout_batch_size", "Messages per batch", LISTENER, buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500)
)
LATENCY_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5, 10, 60, 600)
LATENCY = Histogram(
    "fanout_event_latency_seconds",
    "From occurredAt to the commit of the notifications",
    LISTENER,
    buckets=LATENCY_BUCKETS,
)
FRAMES = Counter("fanout_frames_total", "Live frames that RabbitMQ confirmed")
FRAMES_STORED = Counter(
    "fanout_frames_stored_total", "Live frames that RabbitMQ did not confirm at once; they are published later"
)
CAUGHT_UP = Counter(
    "fanout_caught_up_total", "Events read from the outbox after the listener's queue was deleted", LISTENER
)

EXPANDED = Counter("fanout_expanded_total", "L1 rows by the status after expansion", ("status",))
CHANNEL_SENDS = Counter("fanout_channel_sends_total", "L2 rows written", ("channel", "outcome"))
LIMITED = Counter("fanout_limited_total", "L2 rows postponed or skipped by the limit per recipient and hour")
EXPANSION = Histogram("fanout_expansion_seconds", "Duration of one batch from L1 to L2", buckets=LATENCY_BUCKETS)
