"""The four channels that leave the system, each with a listener, a list of faults and counts of its own."""

from enum import StrEnum


class Channel(StrEnum):
    EMAIL = "EMAIL"
    SMS = "SMS"
    PUSH = "PUSH"
    SLACK = "SLACK"

    @classmethod
    def _missing_(cls, value: object) -> "Channel | None":
        """`/api/faults/email` typed by hand means EMAIL."""
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None
