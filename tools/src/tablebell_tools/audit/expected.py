"""The rows that an event must lead to, from the rules that the services follow. Parameters of the checks."""

from collections.abc import Mapping, Sequence

from tablebell.audience import AUDIENCES, ONLY_IF_BY, SCHEDULED, channels_for
from tablebell.people import DEFAULT_CHANNELS, SHARED_CHANNELS, Audience

_NOTIFIED = [(event_type, audience) for event_type, audiences in AUDIENCES.items() for audience in audiences]
_CHANNELS = [
    (event_type, audience, channel)
    for event_type, audience in _NOTIFIED
    for channel in DEFAULT_CHANNELS[audience.user_type]
    if channel in channels_for(event_type)
]

EXPECTED: Mapping[str, Sequence[str | None]] = {
    "listeners": [audience.listener for audience in Audience],
    "scheduled_events": sorted(SCHEDULED),
    "notified_events": [event_type for event_type, _ in _NOTIFIED],
    "notified_audiences": [audience for _, audience in _NOTIFIED],
    "notified_only_by": [",".join(sorted(ONLY_IF_BY[pair])) if pair in ONLY_IF_BY else None for pair in _NOTIFIED],
    "channel_events": [event_type for event_type, _, _ in _CHANNELS],
    "channel_audiences": [audience for _, audience, _ in _CHANNELS],
    "channel_user_types": [audience.user_type for _, audience, _ in _CHANNELS],
    "shared_channels": sorted(SHARED_CHANNELS),
    "channels": [channel for _, _, channel in _CHANNELS],
}
