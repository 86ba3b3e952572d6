"""For tests and measurements: a gateway in this process, a browser, and an inbox for it to read."""

from ws_gateway.testing.chromium import Chromium, Tab, chromium_process, open_chromium
from ws_gateway.testing.inbox_api import InboxApi, open_inbox_api
from ws_gateway.testing.running import (
    AUDIENCE,
    SECRET,
    RunningGateway,
    StartGateway,
    close_code,
    free_port,
    gateway_process,
    notification,
    publish,
    receive,
    running_gateway,
    token,
)

__all__ = [
    "AUDIENCE",
    "SECRET",
    "Chromium",
    "InboxApi",
    "RunningGateway",
    "StartGateway",
    "Tab",
    "chromium_process",
    "close_code",
    "free_port",
    "gateway_process",
    "notification",
    "open_chromium",
    "open_inbox_api",
    "publish",
    "receive",
    "running_gateway",
    "token",
]
