"""The wire contract of `notification.websocket`: one message carries the frames of a whole batch. Pure.

Every gateway receives every message, so one message per frame would be costly. A frame is serialised once, by the
expander, and a gateway writes its bytes unchanged to the sockets of the addressees.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import orjson

from tablebell.events import CamelModel
from tablebell.inbox import NotificationView, Outcome
from tablebell.people import UserType


class NotificationFrame(NotificationView):
    type: Literal["notification"] = "notification"


class ResolvedFrame(CamelModel):
    type: Literal["resolved"] = "resolved"
    event_notification_id: int
    action: str
    actor_type: str
    actor_id: int
    actor_name: str
    at: datetime
    outcome: Outcome | None = None


class DismissedFrame(CamelModel):
    """Its owner has hidden a notification; sent to the owner's other tabs."""

    type: Literal["dismissed"] = "dismissed"
    notification_id: int
    at: datetime


class ReservationFrame(CamelModel):
    """A reservation changed without a notification: the guests arrived, or did not. Sent to the staff."""

    type: Literal["reservation"] = "reservation"
    reservation_id: int
    status: str
    version: int


class ReadFrame(CamelModel):
    """Notifications were read: these ids, or all up to an id."""

    type: Literal["read"] = "read"
    event_notification_id: int | None = None
    notification_ids: list[int] | None = None
    up_to_id: int | None = None
    read_by_user_id: int
    at: datetime


Frame = NotificationFrame | ResolvedFrame | DismissedFrame | ReservationFrame | ReadFrame


class AddressedFrame(NamedTuple):
    """A frame's bytes and its addressees. A gateway creates tens of thousands of them per second."""

    to: Sequence[str]
    text: bytes


def address(user_type: UserType | str, user_id: int) -> str:
    return f"{user_type}:{user_id}"


def addressed(frame: Frame, to: Sequence[str]) -> AddressedFrame:
    return AddressedFrame(to, frame.model_dump_json(by_alias=True).encode())


def encode_frames(frames: Sequence[AddressedFrame]) -> bytes:
    """One line with the addressees and the length of each frame, then the frames, neither escaped nor parsed."""
    head = orjson.dumps([[frame.to, len(frame.text)] for frame in frames], option=orjson.OPT_APPEND_NEWLINE)
    return b"".join((head, *(frame.text for frame in frames)))


def decode_frames(body: bytes) -> list[AddressedFrame]:
    """Raises ValueError or TypeError for a body that `encode_frames` did not write."""
    start = body.index(b"\n") + 1
    frames = []
    for to, size in orjson.loads(memoryview(body)[:start]):
        if not isinstance(to, list) or size < 0:
            raise ValueError("a frame is a list of addresses and a length")
        frames.append(AddressedFrame(to, body[start : start + size]))
        start += size
    if start != len(body):
        raise ValueError("the lengths of the frames do not add up")
    return frames
