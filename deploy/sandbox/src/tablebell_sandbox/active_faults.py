"""The active faults of each channel, and their effect on each message."""

import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Delay, Fault, OccasionalFault, Refuse, Stage


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """Wait `delay` seconds, then respond with the fault, or normally without one."""

    delay: float = 0.0
    fault: Fault | None = None


NO_FAULT = FaultEffect()


@dataclass(slots=True)
class _ActiveFault:
    fault: Fault
    remaining: int | None
    ends_at: float | None

    def has_ended(self, now: float) -> bool:
        return self.remaining == 0 or (self.ends_at is not None and now >= self.ends_at)


class ActiveFaults:
    def __init__(
        self, chance: Callable[[], float] = random.random, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._chance = chance
        self._clock = clock
        self._active: dict[Channel, list[_ActiveFault]] = {channel: [] for channel in Channel}

    def set(self, channel: Channel, faults: Sequence[Fault]) -> None:
        """Replaces the channel's faults; their counts and clocks start now."""
        now = self._clock()
        self._active[channel] = [
            _ActiveFault(
                fault,
                remaining=fault.count if isinstance(fault, OccasionalFault) else None,
                ends_at=None if fault.for_seconds is None else now + fault.for_seconds,
            )
            for fault in faults
        ]

    def take(self, channel: Channel, to: Collection[str] = (), stage: Stage = "data") -> FaultEffect:
        """Returns the effect on one message, and decrements the `count` of each fault that applied.

        Faults apply in their order: delays add up, and the first fault of another kind is the response.
        """
        if not self._active[channel]:
            return NO_FAULT
        delay = 0.0
        for active in self._current(channel):
            fault = active.fault
            if not isinstance(fault, OccasionalFault) or not fault.applies_at(stage):
                continue
            if fault.match is not None and not any(fault.match in address for address in to):
                continue
            if fault.probability is not None and self._chance() >= fault.probability:
                continue
            if active.remaining is not None:
                active.remaining -= 1
            if isinstance(fault, Delay):
                delay += fault.seconds
            else:
                return FaultEffect(delay, fault)
        return FaultEffect(delay)

    def outage(self, channel: Channel) -> Refuse | None:
        """The longest active outage of the channel's port, if any."""
        outages = [each.fault for each in self._current(channel) if isinstance(each.fault, Refuse)]
        return max(outages, key=lambda each: each.for_seconds or float("inf"), default=None)

    def describe(self, channel: Channel) -> list[dict[str, Any]]:
        """The active faults as they were set, with the remaining counts and times."""
        now = self._clock()
        described = []
        for active in self._current(channel):
            entry = active.fault.model_dump(exclude_none=True)
            if active.remaining is not None:
                entry["remaining"] = active.remaining
            if active.ends_at is not None:
                entry["ends_in_seconds"] = round(active.ends_at - now, 3)
            described.append(entry)
        return described

    def _current(self, channel: Channel) -> list[_ActiveFault]:
        now = self._clock()
        self._active[channel] = [active for active in self._active[channel] if not active.has_ended(now)]
        return self._active[channel]
