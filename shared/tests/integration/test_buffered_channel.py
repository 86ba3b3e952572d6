"""The buffered channel uses undocumented attributes of aiormq; without them the publisher still works."""

import aiormq
import pytest
from pamqp.commands import Basic

from tablebell.rabbit import Broker, Confirmed, OutgoingMessage, Publisher, Rejected
from tablebell.rabbit.buffered_channel import (
    UNDOCUMENTED_ATTRIBUTES,
    BufferedPublishChannel,
    UnbufferedPublishChannel,
    missing_attributes,
    wrap_for_publishing,
)
from tablebell.topology import EVENT_EXCHANGE, EVENT_QUEUES, declare_events


def message(number: int, routing_key: str = "reservation.requested") -> OutgoingMessage:
    properties = Basic.Properties(message_id=f"m{number}", delivery_mode=2)
    return OutgoingMessage(EVENT_EXCHANGE, routing_key, str(number).encode(), properties)


async def test_the_locked_version_of_aiormq_has_every_attribute(broker: Broker) -> None:
    channel = await broker.open_channel(confirms=True, wait=10)
    assert missing_attributes(await channel.get_underlay_channel()) == []
    assert isinstance(await wrap_for_publishing(channel, window=10), BufferedPublishChannel)
    await channel.close()


@pytest.fixture
def unknown_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UNDOCUMENTED_ATTRIBUTES, "an_attribute_of_another_version", aiormq.Channel)


@pytest.mark.usefixtures("unknown_shape")
async def test_with_another_version_the_librarys_own_publish_is_used(broker: Broker) -> None:
    channel = await broker.open_channel(confirms=True, wait=10)
    assert isinstance(await wrap_for_publishing(channel, window=10), UnbufferedPublishChannel)
    await channel.close()
    publisher = Publisher(broker, declare_events, confirm_seconds=5.0, window=20)
    try:
        outcomes = await publisher.publish_all([message(number) for number in range(100)])
        assert outcomes == [Confirmed()] * 100
        assert isinstance(await publisher.publish(message(100, "nobody.listens")), Rejected)
    finally:
        await publisher.close()
    channel = await broker.open_channel(confirms=False)
    for name in EVENT_QUEUES.values():
        declared = await channel.declare_queue(name, passive=True)
        assert declared.declaration_result.message_count == 100
    await channel.close()
