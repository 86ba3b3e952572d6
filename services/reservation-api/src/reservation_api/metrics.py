"""The Prometheus metrics of reservation-api."""

from prometheus_client import Counter, Histogram

REQUESTS = Counter("api_requests_total", "Requests answered.", ["method", "route", "status"])
LATENCY = Histogram(
    "api_request_seconds",
    "Seconds from the start of a request to the end of its response.",
    ["method", "route"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
RESERVATIONS = Counter("api_reservations_total", "Created reservations and their transitions.", ["event_type"])
LIMITS_REACHED = Counter("api_limits_reached_total", "Requests and changes refused by a limit.", ["limit"])
SIGN_INS = Counter(
    "api_sign_ins_total",
    "Steps of sign-in: links asked for, beyond the limit, exchanged; sessions refreshed, ended by a reused token.",
    ["step"],
)
DECISIONS_LOST = Counter("api_decisions_lost_total", "Decisions refused because another person acted first.")
