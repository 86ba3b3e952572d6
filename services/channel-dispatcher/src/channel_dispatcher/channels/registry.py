"""The channels. A new one is a module beside this one and a line here: docs/adding-a-channel.md."""

from channel_dispatcher.channels.email import EMAIL
from channel_dispatcher.channels.push import PUSH
from channel_dispatcher.channels.slack import SLACK
from channel_dispatcher.channels.sms import SMS
from channel_dispatcher.channels.spec import ChannelSpec

CHANNELS: tuple[ChannelSpec, ...] = (
    EMAIL,
    SMS,
    PUSH,
    SLACK,
)
