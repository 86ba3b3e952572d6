"""A person's copy of a notification, with everything that telling them takes: from the rows to values. Pure."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from notification_fanout.channels import Reader, UndeliverableAddress
from tablebell.events import EventType, ReservationData
from tablebell.frames import NotificationFrame
from tablebell.inbox import Resolution, actions_of
from tablebell.people import Audience, Channel, UserType


class Row(Protocol):
    """A row of the database, by its columns' names."""

    def __getitem__(self, column: str, /) -> Any: ...


@dataclass(frozen=True)
class EventNotification:
    """What happened, as one audience was told of it, and how it stands."""

    id: int
    event_type: EventType
    audience: Audience
    reservation_id: int
    restaurant_id: int
    version: int
    properties: dict[str, Any]
    headers: dict[str, str]
    shared: bool
    read_by_user_id: int | None
    resolution: Resolution | None
    has_moved_on: bool
    superseded_by: str | None
    """The next event of the reservation that this audience was told of."""

    @cached_property
    def data(self) -> ReservationData:
        return ReservationData.model_validate(self.properties)

    @cached_property
    def occurred_at(self) -> datetime:
        return datetime.fromisoformat(self.properties["occurredAt"])

    @property
    def withdrawn_because(self) -> str | None:
        """Why nobody needs to hear of it any more; None while it matters."""
        if self.shared and self.resolution is not None:
            return f"handled by {self.resolution.actor_name} ({self.resolution.action})"
        if self.shared and self.has_moved_on:
            return "the reservation has moved on"
        return self.superseded_by and f"superseded by {self.superseded_by}"


def told(event: Row, standing: Row | None) -> EventNotification:
    """`event` of lock_events, `standing` of find_resolutions."""
    decided = standing is not None and standing["action_type"] is not None
    decidable = event["shared_read"] or event["event_type"] == EventType.RESERVATION_POSTPONED
    resolution = None
    if standing is not None and decided and decidable:
        resolution = Resolution(
            action=standing["action_type"],
            actor_id=standing["actor_id"],
            actor_name=standing["actor_name"] or "",
            at=standing["acted_at"],
        )
    return EventNotification(
        id=event["id"],
        event_type=EventType(event["event_type"]),
        audience=Audience(event["audience"]),
        reservation_id=event["reservation_id"],
        restaurant_id=event["restaurant_id"],
        version=event["aggregate_version"],
        properties=event["properties"],
        headers=event["headers"],
        shared=event["shared_read"],
        read_by_user_id=event["read_by_user_id"],
        resolution=resolution,
        has_moved_on=bool(standing and standing["has_moved_on"]),
        superseded_by=superseding(standing["next_event_type"], standing["next_version"])
        if standing is not None and standing["next_version"] is not None
        else None,
    )


def superseding(event_type: str, version: int) -> str:
    """How a reason names the event that makes an earlier one obsolete."""
    return f"{event_type} (version {version})"


def reader(row: Row) -> Reader:
    """`row` of find_readers."""
    undeliverable = row["undeliverable"] or {}
    return Reader(
        user_type=UserType(row["user_type"]),
        timezone=row["timezone"],
        addresses={Channel.EMAIL: row["email"], Channel.SMS: row["phone"], Channel.PUSH: row["fcm_token"]},
        channels=row["channels"] or {},
        event_types=row["event_types"] or {},
        quiet_from=row["quiet_from"],
        quiet_until=row["quiet_until"],
        undeliverable={Channel(channel): UndeliverableAddress(*given) for channel, given in undeliverable.items()},
    )


def left_because(row: Row, event: EventNotification) -> str | None:
    """Why the person must not see it any more, by a `row` of find_readers; None while they may."""
    match UserType(row["user_type"]):
        case UserType.RESTAURANT_USER if row["restaurant_id"] != event.restaurant_id:
            return "the recipient has left the restaurant"
        case UserType.AGENCY_USER if row["agency_id"] != event.data.agency_id:
            return "the recipient has left the agency"
        case _:
            return None


def frame(row: Row, event: EventNotification) -> NotificationFrame:
    """The same as the inbox would show to its owner at this moment."""
    own_reader = row["user_id"] if row["is_read"] else None
    return NotificationFrame(
        id=row["id"],
        event_notification_id=event.id,
        event_type=event.event_type,
        reservation_id=event.reservation_id,
        title=row["title"],
        body=row["body"],
        properties=event.properties | row["properties"],
        shared=event.shared,
        actions=actions_of(event.event_type, event.audience, resolved=event.resolution is not None),
        is_read=row["is_read"],
        read_by_user_id=event.read_by_user_id if event.shared else own_reader,
        resolution=event.resolution,
        created_at=row["created_at"],
    )
