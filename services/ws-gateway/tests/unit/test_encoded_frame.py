"""Encoded frames, compared with the encoder of `websockets` and read by our STOMP parser."""

import pytest
from websockets.frames import Frame, Opcode

from ws_gateway.encoded_frame import DESTINATION, EncodedFrame, text_frame
from ws_gateway.stomp import Parser


@pytest.mark.parametrize("length", [0, 1, 125, 126, 65_535, 65_536, 200_000])
def test_text_frame_matches_the_library(length: int) -> None:
    payload = b"x" * length
    assert text_frame(payload) == Frame(Opcode.TEXT, payload).serialize(mask=False)


def test_a_frame_is_encoded_once_for_all_connections() -> None:
    frame = EncodedFrame(b'{"type":"status","live":true}')
    assert frame.as_json() is frame.as_json()
    assert frame.as_stomp("sub-0", "1.2", needs_ack=False) is frame.as_stomp("sub-0", "1.2", needs_ack=False)


def test_subscriptions_and_ack_modes_have_separate_encodings() -> None:
    frame = EncodedFrame(b"{}")
    keys = [("sub-0", "1.2", False), ("sub-1", "1.2", False), ("sub-0", "1.2", True)]
    encoded = [frame.as_stomp(subscription, version, needs_ack=needs_ack) for subscription, version, needs_ack in keys]
    assert len(set(encoded)) == 3
    for (subscription, _, needs_ack), data in zip(keys, encoded, strict=True):
        (message,) = Parser(10_000).feed(data[2:] if data[1] < 126 else data[4:])
        assert message.headers["subscription"] == subscription
        assert message.headers["destination"] == DESTINATION
        assert ("ack" in message.headers) is needs_ack
        assert message.body == b"{}"
