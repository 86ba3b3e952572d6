"""What an event changes on the screens: who settled a question, who read it, and what need not be sent any more.

A later event makes what the same people were told before obsolete: it is withdrawn with that reason, if it is not sent
yet. The expander writes later rows as withdrawn (`EventNotification.withdrawn_because`). A question to staff is also
withdrawn by the API, in the transaction of the decision; here it is done once more by the event, so that it holds
however the decision was taken.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from notification_fanout import store
from notification_fanout.audience import MOVING, QUESTIONS, is_news
from notification_fanout.message_parser import Incoming, NotificationEvent, ReservationEvent
from notification_fanout.notifications import superseding
from tablebell.events import EventType
from tablebell.frames import AddressedFrame, Frame, ReadFrame, ResolvedFrame, address, addressed
from tablebell.outbox import withdraw_channel_sends
from tablebell.people import Audience
from tablebell.postgres import Connection


@dataclass(frozen=True, slots=True)
class Settled:
    """A notification that an event of this batch settled or superseded. It has a frame if it was a question."""

    event_notification_id: int
    reason: str
    frame: ResolvedFrame | None


async def frames_after(connection: Connection, audience: Audience, events: Sequence[Incoming]) -> list[AddressedFrame]:
    """The frames that follow from these events, after what they made superfluous has been withdrawn."""
    settled = [
        *await _settled_by_moves(connection, audience, events),
        *_settled_by_word(audience, events),
        *await _superseded(connection, audience, events),
    ]
    # The first reason counts: a question that somebody handled is not called superseded as well.
    reasons = {each.event_notification_id: each.reason for each in reversed(settled)}
    if reasons:
        await withdraw_channel_sends(connection, list(reasons), list(reasons.values()), audience.user_type)
    reads = [each for each in _concerning(audience, events) if each.event.event_type is EventType.NOTIFICATION_READ]
    shared: list[tuple[int, Frame]] = [
        (each.event_notification_id, each.frame) for each in settled if each.frame is not None
    ]
    own: list[AddressedFrame] = []
    for each in reads:
        if each.data.shared and each.data.event_notification_id is not None:
            shared.append((each.data.event_notification_id, _read(each)))
        else:
            own.append(addressed(_read(each), [address(each.data.actor.user_type, each.data.actor.user_id)]))
    return own + await _to_recipients(connection, shared)


async def _settled_by_moves(connection: Connection, audience: Audience, events: Sequence[Incoming]) -> list[Settled]:
    moves: dict[int, list[ReservationEvent]] = defaultdict(list)
    for each in events:
        if isinstance(each, ReservationEvent) and each.event.event_type in MOVING:
            moves[each.data.reservation_id].append(each)
    if audience is not Audience.RESTAURANT or not moves:
        return []
    latest = {reservation: max(map(_version, line)) for reservation, line in moves.items()}
    told = await store.lock_outdated(connection, list(latest), list(latest.values()), audience, QUESTIONS)
    if not told:
        return []
    resolutions = {row["id"]: row for row in await store.find_resolutions(connection, [row["id"] for row in told])}
    pairs = [(row, _next_move(moves[row["reservation_id"]], row["aggregate_version"])) for row in told]
    # What is older than the last question was settled by the move before this one.
    last: dict[UUID, int] = {}
    for row, move in pairs:
        last[move.event.event_id] = max(row["aggregate_version"], last.get(move.event.event_id, 0))
    return [
        _settle(row, move, resolutions.get(row["id"]))
        for row, move in pairs
        if row["aggregate_version"] == last[move.event.event_id]
    ]


def _next_move(line: Sequence[ReservationEvent], version: int) -> ReservationEvent:
    return min((each for each in line if _version(each) > version), key=_version)


async def _superseded(connection: Connection, audience: Audience, events: Sequence[Incoming]) -> list[Settled]:
    """What this audience was told of an earlier version. Planned events (reminders) supersede nothing: the acceptance
    whose version they bear has done that."""
    news: dict[int, list[ReservationEvent]] = defaultdict(list)
    for each in events:
        if isinstance(each, ReservationEvent) and _version(each) > 1 and is_news(each.event.event_type, audience):
            news[each.data.reservation_id].append(each)
    if not news:
        return []
    latest = {reservation: max(map(_version, line)) for reservation, line in news.items()}
    told = await store.lock_outdated(connection, list(latest), list(latest.values()), audience, None)
    pairs = [(row["id"], _next_move(news[row["reservation_id"]], row["aggregate_version"]).event) for row in told]
    return [
        Settled(identity, f"superseded by {superseding(by.event_type, by.aggregate_version)}", None)
        for identity, by in pairs
    ]


def _settle(told: asyncpg.Record, move: ReservationEvent, resolution: asyncpg.Record | None) -> Settled:
    """By whoever is known to have decided it first; where nobody is, by who moved the reservation on."""
    actor = move.data.actor
    if resolution is not None and resolution["action_type"] is not None:
        frame = ResolvedFrame(
            event_notification_id=told["id"],
            action=resolution["action_type"],
            actor_id=resolution["actor_id"],
            actor_name=resolution["actor_name"] or "",
            at=resolution["acted_at"],
        )
    elif actor is not None:
        frame = ResolvedFrame(
            event_notification_id=told["id"],
            action=move.data.action or "CUSTOM",
            actor_id=actor.user_id,
            actor_name=actor.name,
            at=move.event.occurred_at,
        )
    else:
        return Settled(told["id"], f"the reservation has moved on ({move.event.event_type})", None)
    return Settled(told["id"], f"handled by {frame.actor_name} ({frame.action})", frame)


def _settled_by_word(audience: Audience, events: Sequence[Incoming]) -> list[Settled]:
    """DISMISSED and CUSTOM settle a question without moving the reservation on."""
    return [
        Settled(
            identity,
            f"handled by {each.data.actor.name} ({each.data.action})",
            ResolvedFrame(
                event_notification_id=identity,
                action=each.data.action or "CUSTOM",
                actor_id=each.data.actor.user_id,
                actor_name=each.data.actor.name,
                at=each.data.at,
            ),
        )
        for each in _concerning(audience, events)
        if each.event.event_type is EventType.NOTIFICATION_RESOLVED
        and (identity := each.data.event_notification_id) is not None
    ]


async def _to_recipients(connection: Connection, frames: Sequence[tuple[int, Frame]]) -> list[AddressedFrame]:
    if not frames:
        return []
    recipients: Mapping[int, list[str]] = defaultdict(list)
    for row in await store.find_recipients(connection, [identity for identity, _ in frames]):
        recipients[row["event_notification_id"]].append(address(row["user_type"], row["user_id"]))
    return [addressed(frame, recipients[identity]) for identity, frame in frames if recipients[identity]]


def _concerning(audience: Audience, events: Iterable[Incoming]) -> list[NotificationEvent]:
    return [each for each in events if isinstance(each, NotificationEvent) and each.data.audience is audience]


def _read(each: NotificationEvent) -> ReadFrame:
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
