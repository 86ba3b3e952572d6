"""A notification as its owner sees it: one shape for the inbox's JSON and for the live frame. Pure."""

from datetime import datetime
from typing import Any

from tablebell.events import Wire


class Resolution(Wire):
    """Who handled a shared notification, how and when."""

    action: str
    actor_id: int
    actor_name: str
    at: datetime


class NotificationView(Wire):
    id: int
    event_notification_id: int
    event_type: str
    reservation_id: int
    title: str
    body: str
    properties: dict[str, Any]
    shared: bool
    """One of several people was told the same, and the first to act decides for all."""
    actions: list[str]
    """What the reader may do about it now; empty once it is resolved."""
    is_read: bool
    read_by_user_id: int | None = None
    resolution: Resolution | None = None
    created_at: datetime
