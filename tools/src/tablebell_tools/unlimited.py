"""Settings for loads, in which a few people do what a town does: the limits are not what is tried or measured."""

UNLIMITED = {
    "RATE_LIMIT_PER_SECOND": "1000000",
    "RATE_LIMIT_BURST": "1000000",
    "OPEN_REQUESTS_PER_CUSTOMER": "0",
    "OPEN_REQUESTS_PER_RESTAURANT": "0",
    "REQUESTS_PER_HOUR": "0",
    "CHANGES_PER_HOUR": "0",
    "TABLE_GAP_MINUTES": "0",
}
