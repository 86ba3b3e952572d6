"""Values of the expander, built from database rows: event notifications, recipients and live frames. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from notification_fanout.channels import Recipient, UndeliverableAddress
from notification_fanout.contact import RestaurantContact
from tablebell.events import EventType, ReservationData
from tablebell.frames import NotificationFrame
from tablebell.inbox import Resolution, actions_of
from tablebell.people import Audience, Channel, UserType


class Row(Protocol):
    """A database row, indexed by column name."""

    def __getitem__(self, column: str, /) -> Any: ...


@dataclass(frozen=True)
class EventNotification:
    """An event as one audience sees it, with its resolution so far."""

    id: int
    event_id: str
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
    has_later_version: bool
    """Whether the reservation has a later version."""
    superseded_by: str | None
    """The label of the reservation's next event with a notification for this audience."""
    was_accepted: bool
    """Whether an earlier version was accepted."""
    contact: RestaurantContact
    carriers: Mapping[str, int]
    """The notification that carries the event's message to a shared address, by address, if there is one already."""

    @cached_property
    def data(self) -> ReservationData:
        return ReservationData.model_validate(self.properties)

    @cached_property
    def occurred_at(self) -> datetime:
        return datetime.fromisoformat(self.properties["occurredAt"])

    @property
    def withdrawn_because(self) -> str | None:
        """Why no recipient needs it any more; None while it is current."""
        if self.shared and self.resolution is not None:
            return f"handled by {self.resolution.actor_name} ({self.resolution.action})"
        if self.shared and self.has_later_version:
            return "the reservation has moved on"
        return self.superseded_by and f"superseded by {self.superseded_by}"


def event_notification(event: Row, state: Row | None, contact: RestaurantContact) -> EventNotification:
    """`event` is a row of lock_events, `state` its row of find_resolutions."""
    is_resolved = state is not None and state["action_type"] is not None
    is_resolvable = event["shared_read"] or event["event_type"] == EventType.RESERVATION_POSTPONED
    resolution = None
    if state is not None and is_resolved and is_resolvable:
        resolution = Resolution(
            action=state["action_type"],
            actor_type=state["actor_type"],
            actor_id=state["actor_id"],
            actor_name=state["actor_name"] or "",
            at=state["acted_at"],
            outcome=state["outcome"],
        )
    return EventNotification(
        id=event["id"],
        event_id=str(event["event_id"]),
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
        has_later_version=bool(state and state["has_later_version"]),
        superseded_by=event_label(state["next_event_type"], state["next_version"])
        if state is not None and state["next_version"] is not None
        else None,
        was_accepted=bool(state and state["was_accepted"]),
        contact=contact,
        carriers=(state["carriers"] if state is not None else None) or {},
    )


def event_label(event_type: str, version: int) -> str:
    """How a reason names the superseding event."""
    return f"{event_type} (version {version})"


def restaurant_contact(row: Row) -> RestaurantContact:
    """`row` is a row of find_restaurants."""
    return RestaurantContact.of(
        address=row["address"], phone=row["phone"], sender_name=row["sender_name"], reply_to=row["reply_to"]
    )


def recipient(row: Row) -> Recipient:
    """`row` is a row of find_recipients."""
    undeliverable = row["undeliverable"] or {}
    return Recipient(
        user_type=UserType(row["user_type"]),
        timezone=row["timezone"],
        addresses={Channel.EMAIL: row["email"], Channel.SMS: row["phone"], Channel.PUSH: row["fcm_token"]},
        channels=row["channels"] or {},
        event_types=row["event_types"] or {},
        quiet_from=row["quiet_from"],
        quiet_until=row["quiet_until"],
        undeliverable={Channel(channel): UndeliverableAddress(*mark) for channel, mark in undeliverable.items()},
    )


def access_lost_because(row: Row, event: EventNotification) -> str | None:
    """Why the recipient may not see the event any more; None while they may. `row` is a row of find_recipients."""
    if not row["active"]:
        return "the recipient is not active any more"
    match UserType(row["user_type"]):
        case UserType.RESTAURANT_USER if row["restaurant_id"] != event.restaurant_id:
            return "the recipient has left the restaurant"
        case UserType.AGENCY_USER if row["agency_id"] != event.data.agency_id:
            return "the recipient has left the agency"
        case _:
            return None


def frame(row: Row, event: EventNotification) -> NotificationFrame:
    """The notification as the recipient's inbox shows it now."""
    own_read_by = row["user_id"] if row["is_read"] else None
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
        read_by_user_id=event.read_by_user_id if event.shared else own_read_by,
        resolution=event.resolution,
        created_at=row["created_at"],
    )
