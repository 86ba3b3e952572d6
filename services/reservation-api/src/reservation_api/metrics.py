"""What reservation-api counts."""

from prometheus_client import Counter, Histogram

REQUESTS = Counter("api_requests_total", "Requests answered.", ["method", "route", "status"])
LATENCY = Histogram(
    "api_request_seconds",
    "From the first byte of a request to the last of its answer.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
RESERVATIONS = Counter("api_reservations_total", "Reservations made, and what was done to them.", ["event_type"])
LIMITS_REACHED = Counter("api_limits_reached_total", "Requests and changes that a limit refused.", ["limit"])
DECISIONS_LOST = Counter("api_decisions_lost_total", "Decisions that came after somebody else's.")
