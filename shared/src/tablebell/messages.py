"""The rendered message of each channel, as L2 stores it (`notification_channel_send.message`). Pure."""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from tablebell.people import Channel


class Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class EmailMessage(Message):
    subject: str
    text: str
    html: str


class SmsMessage(Message):
    text: str


class PushMessage(Message):
    title: str
    body: str
    data: dict[str, str]


class SlackMessage(Message):
    text: str


MESSAGES: Mapping[Channel, type[Message]] = {
    Channel.EMAIL: EmailMessage,
    Channel.SMS: SmsMessage,
    Channel.PUSH: PushMessage,
    Channel.SLACK: SlackMessage,
}
