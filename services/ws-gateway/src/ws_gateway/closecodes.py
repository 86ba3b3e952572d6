"""Why a connection is closed, as a number that clients rely on."""

from enum import IntEnum


class CloseCode(IntEnum):
    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003  # a binary message where JSON is spoken
    LOST = 1006  # never sent: the peer vanished
    INVALID = 1007  # text that is not what it should be
    POLICY = 1008  # too many frames, or one that is not allowed
    TOO_BIG = 1009
    GOING_AWAY = 1012  # the service restarts: come back
    TOO_SLOW = 4008
    BAD_TOKEN = 4401
    NO_AUTH = 4408
    TOO_MANY = 4429
