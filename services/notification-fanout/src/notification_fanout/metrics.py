"""What notification-fanout counts."""

from prometheus_client import Counter, Gauge, Histogram

LISTENER = ("listener",)

CONSUMED = Counter("fanout_consumed_total", "Messages handled", LISTENER)
CREATED = Counter("fanout_created_total", "Notifications created", LISTENER)
DUPLICATES = Counter("fanout_duplicates_total", "Messages skipped because their event had been processed", LISTENER)
OUT_OF_ORDER = Counter(
    "fanout_out_of_order_total",
    "Events that came after a later one of their reservation; they are told, and nothing waits for a gap to close",
    LISTENER,
)
DEAD = Counter("fanout_dead_total", "Messages put into the dead queue", LISTENER)
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
FRAMES = Counter("fanout_frames_total", "Frames that RabbitMQ took for the live channel")
FRAMES_STORED = Counter(
    "fanout_frames_stored_total", "Frames that RabbitMQ did not take at once; they are published later"
)
CAUGHT_UP = Counter(
    "fanout_caught_up_total", "Events that were read from the outbox after the listener's queue was deleted", LISTENER
)

EXPANDED = Counter("fanout_expanded_total", "L1 rows brought to an end", ("status",))
CHANNEL_SENDS = Counter("fanout_channel_sends_total", "L2 rows written", ("channel", "outcome"))
EXPANSION = Histogram("fanout_expansion_seconds", "One batch from L1 to L2", buckets=LATENCY_BUCKETS)
OUTBOX_ROWS = Gauge("fanout_outbox_rows", "L1 rows that are open or dead", ("status",))
OUTBOX_OLDEST = Gauge("fanout_outbox_oldest_seconds", "Age of the oldest L1 row", ("status",))
OVERDUE = Gauge(
    "fanout_overdue_seconds", "How long ago the oldest open L1 row was first due, however often it was put off since"
)
PURGED = Counter("fanout_purged_total", "Rows deleted past their retention", ("table",))
