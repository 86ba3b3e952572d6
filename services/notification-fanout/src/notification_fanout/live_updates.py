"""Withdraws the sends that an event makes obsolete, and builds its `resolved`, `dismissed` and `read` frames.

A later event supersedes the same audience's notifications of earlier versions: their pending sends are withdrawn with
that reason. Sends that are expanded afterwards are written as withdrawn (`EventNotification.withdrawn_because`). A
decision request to staff is also withdrawn by the API in the transaction of the decision. The event withdraws it again,
so that this holds whatever caused the decision.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from notification_fanout import store
from notification_fanout.message_parser import Incoming, NotificationEvent, ReservationEvent
from notification_fanout.notifications import event_label
from tablebell.audience import AUDIENCES, RESOLVING, supersedes_earlier
from tablebell.events import EventType
from tablebell.frames import (
    AddressedFrame,
    DismissedFrame,
    Frame,
    ReadFrame,
    ReservationFrame,
    ResolvedFrame,
    address,
    addressed,
)
from tablebell.inbox import SHARED_EVENTS, Outcome
from tablebell.outbox import withdraw_channel_sends
from tablebell.people import Audience
from tablebell.postgres import Connection


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A notification that an event of this batch resolved or superseded; only a resolved one has a frame."""

    event_notification_id: int
    reason: str
    frame: ResolvedFrame | None


async def apply_events(connection: Connection, audience: Audience, events: Sequence[Incoming]) -> list[AddressedFrame]:
    """Withdraw what these events make obsolete, and return the frames to emit."""
    withdrawals = [
        *await _resolved_by_reservation_events(connection, audience, events),
        *_resolved_by_notification_events(audience, events),
        *await _superseded(connection, audience, events),
    ]
    # The first reason wins: a resolved notification is not reported as superseded.
    reasons = {each.event_notification_id: each.reason for each in reversed(withdrawals)}
    if reasons:
        await withdraw_channel_sends(connection, list(reasons), list(reasons.values()), audience.user_type)
    shared: list[tuple[int, Frame]] = [
        (each.event_notification_id, each.frame) for each in withdrawals if each.frame is not None
    ]
    own: list[AddressedFrame] = []
    for each in _notification_events(audience, events, EventType.NOTIFICATION_READ):
        if each.data.shared and each.data.event_notification_id is not None:
            shared.append((each.data.event_notification_id, _read_frame(each)))
        else:
            own.append(addressed(_read_frame(each), [_own_address(each)]))
    for each in _notification_events(audience, events, EventType.NOTIFICATION_DISMISSED):
        for notification_id in each.data.notification_ids or ():
            frame = DismissedFrame(notification_id=notification_id, at=each.data.at)
            own.append(addressed(frame, [_own_address(each)]))
    own += await _silent_changes(connection, audience, events)
    return own + await _to_recipients(connection, shared)


async def _silent_changes(
    connection: Connection, audience: Audience, events: Sequence[Incoming]
) -> list[AddressedFrame]:
    """Frames for the staff about events that notify nobody: the guests arrived, or did not."""
    silent = [each for each in events if isinstance(each, ReservationEvent) and not AUDIENCES[each.event.event_type]]
    if audience is not Audience.RESTAURANT or not silent:
        return []
    staff: Mapping[int, list[str]] = defaultdict(list)
    for row in await store.find_staff(connection, list({each.data.restaurant_id for each in silent})):
        staff[row["restaurant_id"]].append(address(audience.user_type, row["id"]))
    return [
        addressed(
            ReservationFrame(
                reservation_id=each.data.reservation_id, status=each.data.status, version=each.event.aggregate_version
            ),
            staff[each.data.restaurant_id],
        )
        for each in silent
        if staff[each.data.restaurant_id]
    ]


async def _resolved_by_reservation_events(
    connection: Connection, audience: Audience, events: Sequence[Incoming]
) -> list[Withdrawal]:
    resolving: dict[int, list[ReservationEvent]] = defaultdict(list)
    for each in events:
        if isinstance(each, ReservationEvent) and each.event.event_type in RESOLVING:
            resolving[each.data.reservation_id].append(each)
    if audience is not Audience.RESTAURANT or not resolving:
        return []
    latest = _latest_versions(resolving)
    earlier = await store.lock_earlier(connection, list(latest), list(latest.values()), audience, sorted(SHARED_EVENTS))
    if not earlier:
        return []
    resolutions = {row["id"]: row for row in await store.find_resolutions(connection, [row["id"] for row in earlier])}
    pairs = [(row, _next_event(resolving[row["reservation_id"]], row["aggregate_version"])) for row in earlier]
    # An event resolves only the last request before it. Older requests were resolved by the events before.
    last: dict[UUID, int] = {}
    for row, by in pairs:
        last[by.event.event_id] = max(row["aggregate_version"], last.get(by.event.event_id, 0))
    return [
        _resolved(row["id"], by, resolutions.get(row["id"]))
        for row, by in pairs
        if row["aggregate_version"] == last[by.event.event_id]
    ]


async def _superseded(connection: Connection, audience: Audience, events: Sequence[Incoming]) -> list[Withdrawal]:
    superseding: dict[int, list[ReservationEvent]] = defaultdict(list)
    for each in events:
        if (
            isinstance(each, ReservationEvent)
            and _version(each) > 1
            and supersedes_earlier(each.event.event_type, audience, each.data.actor)
        ):
            superseding[each.data.reservation_id].append(each)
    if not superseding:
        return []
    latest = _latest_versions(superseding)
    earlier = await store.lock_earlier(connection, list(latest), list(latest.values()), audience, None)
    pairs = [
        (row["id"], _next_event(superseding[row["reservation_id"]], row["aggregate_version"]).event) for row in earlier
    ]
    return [
        Withdrawal(identity, f"superseded by {event_label(by.event_type, by.aggregate_version)}", None)
        for identity, by in pairs
    ]


def _latest_versions(events: Mapping[int, Sequence[ReservationEvent]]) -> dict[int, int]:
    return {reservation: max(map(_version, of_reservation)) for reservation, of_reservation in events.items()}


def _next_event(events: Sequence[ReservationEvent], version: int) -> ReservationEvent:
    return min((each for each in events if _version(each) > version), key=_version)


def _resolved(identity: int, by: ReservationEvent, resolution: asyncpg.Record | None) -> Withdrawal:
    """Name the recorded first actor, or else the actor of the event."""
    actor = by.data.actor
    if resolution is not None and resolution["action_type"] is not None:
        frame = ResolvedFrame(
            event_notification_id=identity,
            action=resolution["action_type"],
            actor_type=resolution["actor_type"],
            actor_id=resolution["actor_id"],
            actor_name=resolution["actor_name"] or "",
            at=resolution["acted_at"],
            outcome=resolution["outcome"],
        )
    elif actor is not None:
        frame = ResolvedFrame(
            event_notification_id=identity,
            action=by.data.action or "CUSTOM",
            actor_type=actor.user_type,
            actor_id=actor.user_id,
            actor_name=actor.name,
            at=by.event.occurred_at,
            outcome=_outcome(by),
        )
    else:
        return Withdrawal(identity, f"the reservation has moved on ({by.event.event_type})", None)
    return Withdrawal(identity, f"handled by {frame.actor_name} ({frame.action})", frame)


def _resolved_by_notification_events(audience: Audience, events: Sequence[Incoming]) -> list[Withdrawal]:
    """CUSTOM resolves a request without a new version of the reservation."""
    return [
        Withdrawal(
            identity,
            f"handled by {each.data.actor.name} ({each.data.action})",
            ResolvedFrame(
                event_notification_id=identity,
                action=each.data.action or "CUSTOM",
                actor_type=each.data.actor.user_type,
                actor_id=each.data.actor.user_id,
                actor_name=each.data.actor.name,
                at=each.data.at,
            ),
        )
        for each in _notification_events(audience, events, EventType.NOTIFICATION_RESOLVED)
        if (identity := each.data.event_notification_id) is not None
    ]


async def _to_recipients(connection: Connection, frames: Sequence[tuple[int, Frame]]) -> list[AddressedFrame]:
    if not frames:
        return []
    recipients: Mapping[int, list[str]] = defaultdict(list)
    for row in await store.find_frame_recipients(connection, [identity for identity, _ in frames]):
        recipients[row["event_notification_id"]].append(address(row["user_type"], row["user_id"]))
    return [addressed(frame, recipients[identity]) for identity, frame in frames if recipients[identity]]


def _notification_events(
    audience: Audience, events: Iterable[Incoming], event_type: EventType
) -> list[NotificationEvent]:
    return [
        each
        for each in events
        if isinstance(each, NotificationEvent)
        and each.data.audience is audience
        and each.event.event_type is event_type
    ]


def _outcome(by: ReservationEvent) -> Outcome:
    data = by.data
    return Outcome(
        event_type=by.event.event_type,
        slot_time=data.slot_time,
        proposed_time=data.proposed_time,
        party_size=data.party_size,
        reason=data.reason,
    )


def _own_address(each: NotificationEvent) -> str:
    return address(each.data.actor.user_type, each.data.actor.user_id)


def _read_frame(each: NotificationEvent) -> ReadFrame:
    data = each.data
    return ReadFrame(
        event_notification_id=data.event_notification_id,
        notification_ids=data.notification_ids,
        up_to_id=data.up_to_id,
        read_by_user_id=data.actor.user_id,
        at=data.at,
    )


def _version(each: Incoming) -> int:
    return each.event.aggregate_version
