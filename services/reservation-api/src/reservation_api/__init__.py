"""The HTTP API: reservations, the inbox, preferences and operations."""
