"""`/ws`: JSON in text messages. The first is {"type":"auth","token":…}, and so is every renewal.

{"type":"ping"} is answered with {"type":"pong"}: a browser cannot see WebSocket pings, and must check after a sleep
whether the connection still works. Unknown types are ignored, because a newer client may send them.
"""

import orjson

from tablebell.tokens import Identity
from ws_gateway.close_codes import CloseCode
from ws_gateway.encoded_frame import EncodedFrame, text_frame
from ws_gateway.session import Session

PONG = text_frame(b'{"type":"pong"}')


class JsonSession(Session[bytes]):
    __slots__ = ()

    protocol = "json"
    accepts_binary = False

    def deliver(self, frame: EncodedFrame) -> bool:
        return self._connection.send(frame.as_json())

    def receive(self, data: bytes) -> None:
        self.handle_or_queue(data)

    def handle(self, message: bytes) -> None:
        try:
            frame = orjson.loads(message)
        except orjson.JSONDecodeError:
            frame = None
        if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
            self._connection.fail(CloseCode.INVALID, "not a JSON object with a type")
        elif frame["type"] == "auth":
            token = frame.get("token")
            if isinstance(token, str):
                self.authenticate(token)
            else:
                self.close(CloseCode.BAD_TOKEN, "no token")
        elif self._identity is None:
            self.close(CloseCode.BAD_TOKEN, "the first frame is not auth")
        elif frame["type"] == "ping":
            self._connection.send(PONG)

    def on_authenticated(self, identity: Identity) -> None:
        ready = {
            "type": "ready",
            "userType": identity.user_type,
            "userId": identity.user_id,
            "expiresAt": identity.expires_at,
        }
        self._connection.send(text_frame(orjson.dumps(ready, option=orjson.OPT_UTC_Z)))
