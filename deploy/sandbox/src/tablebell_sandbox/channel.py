"""The channels. Each has its own listener, faults and counts."""

from enum import StrEnum


class Channel(StrEnum):
    EMAIL = "EMAIL"
    SMS = "SMS"
    PUSH = "PUSH"
    SLACK = "SLACK"

    @property
    def label(self) -> str:
        """The name on the page."""
        return {"EMAIL": "E-mail", "SMS": "SMS"}.get(self, self.capitalize())

    @classmethod
    def _missing_(cls, value: object) -> "Channel | None":
        """Accepts lower case: `/api/faults/email`."""
        return cls.__members__.get(value.upper()) if isinstance(value, str) else None
