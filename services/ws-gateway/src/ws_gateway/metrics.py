"""What ws-gateway counts."""

from prometheus_client import Counter, Gauge, Histogram

CONNECTIONS = Gauge("gateway_connections", "Open WebSocket connections", ["protocol"])
USERS = Gauge("gateway_users", "People with at least one connection")
LIVE = Gauge("gateway_feed_live", "1 while frames come from RabbitMQ")
MESSAGES = Counter("gateway_messages_total", "Messages from RabbitMQ, each with the frames of a batch")
FRAMES = Counter("gateway_frames_total", "Frames from RabbitMQ")
SENT = Counter("gateway_frames_sent_total", "Frames written to sockets")
DROPPED = Counter("gateway_dropped_total", "What was thrown away", ["reason"])
CLOSES = Counter("gateway_closes_total", "Ended WebSocket connections by close code", ["code"])
REFUSED = Counter("gateway_refused_total", "Handshakes that were refused, by HTTP status", ["status"])
LAG = Histogram(
    "gateway_lag_seconds",
    "From createdAt to the socket, of the first delivered notification of each message",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
