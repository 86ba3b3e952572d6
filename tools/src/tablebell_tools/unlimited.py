"""Settings without limits and undo, for loads in which few people, or one machine, make and get many messages."""

UNLIMITED = {
    "RATE_LIMIT_PER_SECOND": "1000000",
    "RATE_LIMIT_BURST": "1000000",
    "AUTH_FAILURES_BURST": "1000000",
    "MAX_CONNECTIONS_PER_SOURCE": "1000000",
    "MAX_UNAUTHENTICATED": "1000000",
    "MAX_UNAUTHENTICATED_PER_SOURCE": "1000000",
    "OPEN_REQUESTS_PER_CUSTOMER": "0",
    "OPEN_REQUESTS_PER_RESTAURANT": "0",
    "REQUESTS_PER_HOUR": "0",
    "CHANGES_PER_HOUR": "0",
    "TABLE_GAP_MINUTES": "0",
    "UNDO_SECONDS": "0",
    "CUSTOMER_SMS_PER_HOUR": "0",
    "CUSTOMER_MESSAGES_PER_HOUR": "0",
    "STAFF_MESSAGES_PER_HOUR": "0",
    "SMS_PER_DAY": "0",
}
