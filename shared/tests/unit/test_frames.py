from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from tablebell.frames import NotificationFrame, ResolvedFrame, address, addressed, decode_frames, encode_frames
from tablebell.inbox import NotificationView
from tablebell.people import UserType

AT = datetime(2027, 11, 14, 19, 0, tzinfo=UTC)
VIEW: dict[str, Any] = {
    "id": 1, "event_notification_id": 2, "event_type": "RESERVATION_REQUESTED", "reservation_id": 3, "title": "Nuova",
    "body": "è arrivata", "properties": {"partySize": 4}, "shared": True, "actions": ["CONFIRMED"], "is_read": False,
    "created_at": AT,
}  # fmt: skip


def test_a_batch_of_frames_arrives_as_it_was_sent() -> None:
    resolved = ResolvedFrame(
        event_notification_id=2,
        action="CONFIRMED",
        actor_type="RESTAURANT_USER",
        actor_id=50,
        actor_name="Giulia",
        at=AT,
    )
    to = [address(UserType.RESTAURANT_USER, 50), address(UserType.RESTAURANT_USER, 51)]
    sent = [addressed(NotificationFrame(**VIEW), to[:1]), addressed(resolved, to)]
    assert decode_frames(encode_frames(sent)) == sent


def test_a_notification_frame_is_the_inboxs_json_plus_its_type() -> None:
    frame = orjson.loads(addressed(NotificationFrame(**VIEW), ["CUSTOMER:5"]).text)
    assert frame.pop("type") == "notification"
    assert frame == orjson.loads(NotificationView(**VIEW).model_dump_json(by_alias=True))


RUBBISH = [b"", b"{}", b"[1]\n", b'[["a"]]\n', b'[["a",1]]\nx', b"\xff\n"]
LIES = [b'[[["a"],2]]\nx', b'[[["a"],0]]\nx', b'[[["a"],-1]]\n']


@pytest.mark.parametrize("rubbish", RUBBISH + LIES)
def test_a_malformed_body_is_a_value_error(rubbish: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        decode_frames(rubbish)
