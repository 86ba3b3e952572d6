"""A received message: as stored (Record, unparsed) and as shown (Message).

Storing a record is cheap. Parsing happens in `describe`, when a message is read.
"""

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Protocol

from tablebell_sandbox.channel import Channel


@dataclass(frozen=True, slots=True)
class Description:
    """A parsed message of any channel."""

    sender: str | None
    subject: str | None
    text: str
    html: str | None
    headers: dict[str, str]
    message_id: str | None
    raw: str | dict[str, Any]
    envelope: dict[str, Any] = field(default_factory=dict)


class Content(Protocol):
    """The stored content of a message."""

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
    """`key` identifies the message when duplicates are counted; `message_id` is the provider's or the sender's id
    (Message-ID, the SMS's sid, FCM's message name)."""

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
