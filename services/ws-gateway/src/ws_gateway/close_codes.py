"""WebSocket close codes. Clients rely on these numbers."""

from enum import IntEnum


class CloseCode(IntEnum):
    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003  # a binary message on the JSON endpoint
    LOST = 1006  # never sent: the connection ended without a close frame
    INVALID = 1007  # text that is not a JSON object with a type
    POLICY = 1008  # too many frames
    TOO_BIG = 1009
    SERVICE_RESTART = 1012
    TOO_SLOW = 4008
    BAD_TOKEN = 4401
    NO_AUTH = 4408
    TOO_MANY = 4429
