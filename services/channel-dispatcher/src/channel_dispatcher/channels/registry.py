"""Which channels there are. A new one is a module beside this one and a line here: docs/adding-a-channel.md."""

from channel_dispatcher.channels.email import EMAIL
from channel_dispatcher.channels.kind import Kind
from channel_dispatcher.channels.push import PUSH
from channel_dispatcher.channels.slack import SLACK
from channel_dispatcher.channels.sms import SMS

KINDS: tuple[Kind, ...] = (
    EMAIL,
    SMS,
    PUSH,
    SLACK,
)
