"""The metrics of ws-gateway."""

from prometheus_client import Counter, Gauge, Histogram

CONNECTIONS = Gauge("gateway_connections", "Open WebSocket connections", ["protocol"])
UNAUTHENTICATED = Gauge("gateway_unauthenticated", "Connections before their authentication")
USERS = Gauge("gateway_users", "Users with at least one connection")
LIVE = Gauge("gateway_feed_live", "1 while this process consumes frames from RabbitMQ")
MESSAGES = Counter("gateway_messages_total", "Messages from RabbitMQ, each with a batch of frames")
FRAMES = Counter("gateway_frames_total", "Frames from RabbitMQ")
SENT = Counter("gateway_frames_sent_total", "Frames sent to connections")
DROPPED = Counter(
    "gateway_dropped_total",
    "Unreadable messages, and connections closed as too slow or to make room for others",
    ["reason"],
)
CLOSES = Counter("gateway_closes_total", "Ended WebSocket connections by close code", ["code"])
REFUSED = Counter("gateway_refused_total", "Refused handshakes by HTTP status", ["status"])
REVOCATIONS_AGE = Gauge("gateway_revocations_age_seconds", "Since the list of revoked tokens was read")
LAG = Histogram(
    "gateway_lag_seconds",
    "From createdAt to the write, of the first delivered notification of each message",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
