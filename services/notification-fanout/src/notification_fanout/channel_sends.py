"""Builds the L2 rows of a notification: one per durable channel, each pending, skipped or withdrawn with its reason."""

from typing import Any

from notification_fanout import notifications
from notification_fanout.channels import DeliveryContext, Recipient, Skip, plan
from notification_fanout.expiry import is_urgent, not_after
from notification_fanout.language import language_of
from notification_fanout.mail import MailContext
from notification_fanout.notifications import EventNotification, Row
from notification_fanout.render import NotificationRenderer, Text
from tablebell.audience import channels_for
from tablebell.people import SHARED_CHANNELS


class RendererCache:
    """The renderers of a batch: recipients of the same event in the same language share one."""

    def __init__(self) -> None:
        self._renderers: dict[tuple[int, str, Text], NotificationRenderer] = {}

    def renderer(self, event: EventNotification, row: Row) -> NotificationRenderer:
        """The renderer takes title and body from the notification, where the listener stored them."""
        language, text = language_of(row["locale"]), Text(row["title"], row["body"])
        # The text is part of the key: a recipient may have changed their locale since it was stored.
        key = event.id, language.code, text
        if key not in self._renderers:
            context = MailContext(event.contact, event.version, event.occurred_at, event.was_accepted)
            self._renderers[key] = NotificationRenderer(
                event.event_type, event.audience, language, event.data, text=text, context=context
            )
        return self._renderers[key]


class SharedMessages:
    """Chooses the notification that carries an event's message to an address that several recipients share.

    The first one carries it: of an earlier batch, or else of this one. A unique index prevents a second one if two
    expanders choose at the same time; the later transaction is repeated and finds the choice of the other.
    """

    def __init__(self) -> None:
        self._carriers: dict[tuple[str, str], int] = {}

    def carrier(self, event: EventNotification, address: str, notification_id: int) -> int:
        known = event.carriers.get(address, notification_id)
        return self._carriers.setdefault((event.event_id, address), known)


def channel_sends(
    row: Row, recipient: Recipient, event: EventNotification, renderers: RendererCache, shared: SharedMessages
) -> list[dict[str, Any]]:
    """`row` is the row of find_recipients that `recipient` was built from."""
    data, withdrawn = event.data, event.withdrawn_because or notifications.access_lost_because(row, event)
    context = DeliveryContext(
        event_type=event.event_type,
        allowed=channels_for(event.event_type),
        now=row["now"],
        not_after=not_after(event.event_type, data, event.occurred_at),
        urgent=is_urgent(event.event_type, data, event.occurred_at),
    )
    renderer = renderers.renderer(event, row)
    ids = {
        "notificationId": str(row["id"]),
        "eventNotificationId": str(event.id),
        "reservationId": str(event.reservation_id),
        "eventType": str(event.event_type),
    }
    sends = []
    for decision in plan(recipient, context):
        send: dict[str, Any] = {
            "notification_id": row["id"],
            "channel_type": decision.channel,
            "user_type": row["user_type"],
            "user_id": row["user_id"],
            "restaurant_id": event.restaurant_id,
            "reservation_id": event.reservation_id,
            "aggregate_version": event.version,
            "recipient": decision.address,
            "message": renderer.message(decision.channel, row["name"], ids).model_dump(exclude_defaults=True),
            "headers": event.headers,
            "not_after": context.not_after,
        }
        if isinstance(decision, Skip):
            send |= {"is_sent": False, "outcome": "SKIPPED", "last_error": decision.reason}
        elif withdrawn is not None:
            send |= {"is_sent": False, "outcome": "WITHDRAWN", "last_error": withdrawn}
        else:
            send["next_attempt_at"] = decision.not_before if decision.not_before > context.now else None
            if decision.channel in SHARED_CHANNELS:
                send |= _share(shared.carrier(event, decision.address, row["id"]), row["id"], event)
        sends.append(send)
    return sends


def _share(carrier: int, notification_id: int, event: EventNotification) -> dict[str, Any]:
    if carrier == notification_id:
        return {"shared_event_id": event.event_id}
    reason = f"sent once for all who share the address, see notification {carrier}"
    return {"is_sent": False, "outcome": "SKIPPED", "last_error": reason}
