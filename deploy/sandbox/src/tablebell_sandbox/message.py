"""What arrived: as it is kept (Record, unparsed) and as it is shown (Message).

A record costs next to nothing on arrival; everything that can wait until somebody looks is done in `describe`.
"""

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Protocol

from tablebell_sandbox.channel import Channel


@dataclass(frozen=True, slots=True)
class Description:
    """The readable side of one message, whatever its channel."""

    sender: str | None
    subject: str | None
    text: str
    html: str | None
    headers: dict[str, str]
    message_id: str | None
    raw: str | dict[str, Any]
    envelope: dict[str, Any] = field(default_factory=dict)


class Content(Protocol):
    """What a channel keeps of a message."""

    def describe(self) -> Description: ...


@dataclass(frozen=True, slots=True)
class Record:
    sequence: int
    channel: Channel
    received_at: float
    to: tuple[str, ...]
    key: str
    content: Content


@dataclass(frozen=True, slots=True)
class Message:
    """`key` tells two messages apart in an audit of duplicates; `message_id` is the id that the sender was told
    or has chosen (Message-ID, the SMS's sid, FCM's message name)."""

    sequence: int
    channel: Channel
    received_at: str
    received_at_epoch: float
    to: list[str]
    sender: str | None
    subject: str | None
    text: str
    html: str | None
    headers: dict[str, str]
    key: str
    message_id: str | None
    envelope: dict[str, Any]
    raw: str | dict[str, Any]

    @classmethod
    def of(cls, record: Record) -> "Message":
        description = record.content.describe()
        moment = datetime.fromtimestamp(record.received_at, UTC)
        return cls(
            sequence=record.sequence,
            channel=record.channel,
            received_at=moment.isoformat(timespec="microseconds"),
            received_at_epoch=record.received_at,
            to=list(record.to),
            sender=description.sender,
            subject=description.subject,
            text=description.text,
            html=description.html,
            headers=description.headers,
            key=record.key,
            message_id=description.message_id,
            envelope=description.envelope,
            raw=description.raw,
        )

    def as_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}
