"""Settings without limits, for loads in which few people, or one machine, make many requests."""

UNLIMITED = {
    "RATE_LIMIT_PER_SECOND": "1000000",
    "RATE_LIMIT_BURST": "1000000",
    "AUTH_FAILURES_BURST": "1000000",
    "MAX_CONNECTIONS_PER_SOURCE": "1000000",
    "OPEN_REQUESTS_PER_CUSTOMER": "0",
    "OPEN_REQUESTS_PER_RESTAURANT": "0",
    "REQUESTS_PER_HOUR": "0",
    "CHANGES_PER_HOUR": "0",
    "TABLE_GAP_MINUTES": "0",
}
