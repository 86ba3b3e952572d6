"""The STOMP wire format: whole, split, joined, escaped and invalid frames."""

import pytest

from ws_gateway.stomp import BadFrame, Parser, StompFrame, encode

SUBSCRIBE = b"SUBSCRIBE\nid:sub-0\ndestination:/user/queue/notifications\n\n\0"


def parse(data: bytes, limit: int = 16_384) -> list[StompFrame]:
    return Parser(limit).feed(data)


def test_a_frame_has_a_command_headers_and_a_body() -> None:
    (frame,) = parse(b"SEND\ndestination:/x\n\nhello\0")
    assert frame == StompFrame("SEND", {"destination": "/x"}, b"hello")


def test_a_frame_is_parsed_byte_by_byte() -> None:
    parser = Parser(16_384)
    frames = [frame for byte in SUBSCRIBE for frame in parser.feed(bytes([byte]))]
    assert frames == parse(SUBSCRIBE)


def test_joined_frames_with_heart_beats_between_are_parsed() -> None:
    frames = parse(b"\n\r\n" + SUBSCRIBE + b"\n\n" + b"ACK\nid:1\n\n\0" + b"\n" + b"DISC")
    assert [frame.command for frame in frames] == ["SUBSCRIBE", "ACK"]


def test_heart_beats_are_not_frames() -> None:
    assert parse(b"\n\n\r\n") == []


def test_carriage_returns_at_line_ends_are_removed() -> None:
    (frame,) = parse(b"SEND\r\ndestination:/x\r\n\r\nhello\0")
    assert frame == StompFrame("SEND", {"destination": "/x"}, b"hello")


def test_a_body_with_a_content_length_may_contain_nul() -> None:
    (frame,) = parse(b"SEND\ncontent-length:5\n\na\0b\0c\0")
    assert frame.body == b"a\0b\0c"


def test_the_first_of_repeated_headers_counts() -> None:
    (frame,) = parse(b"SEND\nfoo:World\nfoo:Hello\n\n\0")
    assert frame.headers == {"foo": "World"}


def test_a_value_may_contain_colons() -> None:
    (frame,) = parse(b"CONNECT\nAuthorization:Bearer a:b\n\n\0")
    assert frame.headers["Authorization"] == "Bearer a:b"


SPECIAL = "back\\slash, col:on, line\nfeed, carriage\rreturn, \\n, ü, 🍕"


def test_escaped_headers_survive_a_round_trip() -> None:
    (frame,) = parse(encode("MESSAGE", {SPECIAL: SPECIAL}))
    assert frame.headers == {SPECIAL: SPECIAL}


def test_escapes_follow_1_2() -> None:
    assert encode("RECEIPT", {"receipt-id": "a:b\\c\nd\re"}) == b"RECEIPT\nreceipt-id:a\\cb\\\\c\\nd\\re\n\n\0"


def test_connect_and_connected_are_not_escaped() -> None:
    assert encode("CONNECTED", {"user-name": "CUSTOMER:5"}) == b"CONNECTED\nuser-name:CUSTOMER:5\n\n\0"
    (frame,) = parse(b"CONNECT\nlogin:a\\nb\n\n\0")
    assert frame.headers["login"] == "a\\nb"


def test_1_0_has_no_escapes() -> None:
    assert encode("MESSAGE", {"a": "b\\c"}, version="1.0") == b"MESSAGE\na:b\\c\n\n\0"
    parser = Parser(16_384)
    parser.escaped = False
    (frame,) = parser.feed(b"SUBSCRIBE\nid:a\\tb\n\n\0")
    assert frame.headers["id"] == "a\\tb"


def test_the_content_length_is_in_bytes() -> None:
    assert encode("MESSAGE", {}, "ü".encode()) == b"MESSAGE\ncontent-length:2\n\n\xc3\xbc\0"


@pytest.mark.parametrize(
    "invalid",
    [
        b"\0",
        b"SEND\0",
        b"send\n\n\0",
        b"\xff\xfe\n\n\0",
        b"GET / HTTP/1.1\nHost: x\n\n\0",
        b"SEND\nno-colon\n\n\0",
        b"SEND\n:no-name\n\n\0",
        b"SEND\na:\\t\n\n\0",
        b"SEND\na:ends with \\\n\n\0",
        b"SEND\ncontent-length:-1\n\n\0",
        b"SEND\ncontent-length:x\n\n\0",
        b"SEND\ncontent-length:1\n\nabc\0",
        b"SEND\ncontent-length:999999999\n\n",
        b"SEND\n" + b"a:b\n" * 40 + b"\n\0",
        b"x" * 20_000,
    ],
)
def test_invalid_frames_are_rejected(invalid: bytes) -> None:
    with pytest.raises(BadFrame):
        parse(invalid)
