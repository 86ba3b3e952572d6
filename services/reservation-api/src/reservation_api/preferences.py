"""Notification preferences: differences from the defaults per channel and per event type, and quiet hours."""

from datetime import time
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, StrictBool, WithJsonSchema, model_validator

from reservation_api import store
from reservation_api.access import unknown_user
from reservation_api.schemas import Body
from tablebell.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.people import Channel
from tablebell.postgres import Pool
from tablebell.tokens import Identity

NOTIFIED_EVENTS = frozenset(event for event, audiences in AUDIENCES.items() if audiences)
WALL_CLOCK = r"^([01]\d|2[0-3]):[0-5]\d$"


def hour_and_minute(value: Any) -> Any:
    if not isinstance(value, str) or len(value) != 5:
        raise ValueError("should be a time of day such as 22:30")
    return value


TimeOfDay = Annotated[
    time,
    BeforeValidator(hour_and_minute),
    PlainSerializer(lambda moment: f"{moment:%H:%M}", return_type=str),
    WithJsonSchema({"type": "string", "pattern": WALL_CLOCK, "examples": ["22:30"]}),
]
Switches = dict[Channel, StrictBool]


class QuietHours(Body):
    """In the person's timezone. They cross midnight if `until` is earlier than `from`."""

    from_: TimeOfDay = Field(alias="from")
    until: TimeOfDay

    @model_validator(mode="after")
    def is_not_a_whole_day(self) -> "QuietHours":
        if self.from_ == self.until:
            raise ValueError("from and until cannot be the same; switch the channels off instead")
        return self


class Preferences(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "channels": {"SMS": False},
                "eventTypes": {"RESERVATION_CHANGED": {"EMAIL": False}},
                "quietHours": {"from": "22:30", "until": "07:00"},
            }
        }
    )

    channels: Switches = Field(default_factory=dict)
    event_types: dict[EventType, Switches] = Field(default_factory=dict)
    quiet_hours: QuietHours | None = None

    @model_validator(mode="after")
    def has_only_notified_events(self) -> "Preferences":
        if unknown := set(self.event_types) - NOTIFIED_EVENTS:
            raise ValueError(f"there are no notifications of {', '.join(sorted(unknown))}")
        return self


class PreferenceService:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def find(self, identity: Identity) -> Preferences:
        row = await store.find_preferences(self._pool, identity.user_type, identity.user_id)
        if row is None:
            return Preferences()
        quiet = None
        if row["quiet_from"] is not None:
            quiet = {"from": f"{row['quiet_from']:%H:%M}", "until": f"{row['quiet_until']:%H:%M}"}
        return Preferences.model_validate(
            {"channels": row["channels"], "eventTypes": row["event_types"], "quietHours": quiet}
        )

    async def save(self, identity: Identity, preferences: Preferences) -> Preferences:
        """Replace all preferences of the person."""
        quiet, plain = preferences.quiet_hours, preferences.model_dump(mode="json")
        is_saved = await store.save_preferences(
            self._pool,
            identity.user_type,
            identity.user_id,
            channels=plain["channels"],
            event_types=plain["event_types"],
            quiet_from=quiet.from_ if quiet else None,
            quiet_until=quiet.until if quiet else None,
        )
        if not is_saved:
            raise unknown_user()
        return preferences
