"""Which faults are on right now, and whether the message at hand is struck by one."""

import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.faults import Delay, Fault, OccasionalFault, Refuse, Stage


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """Wait `delay` seconds, then answer with the fault, or normally if there is none."""

    delay: float = 0.0
    fault: Fault | None = None


NO_FAULT = FaultEffect()


@dataclass(slots=True)
class _Active:
    fault: Fault
    remaining: int | None
    ends_at: float | None

    def over(self, now: float) -> bool:
        return self.remaining == 0 or (self.ends_at is not None and now >= self.ends_at)


class FaultBoard:
    def __init__(
        self, chance: Callable[[], float] = random.random, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._chance = chance
        self._clock = clock
        self._active: dict[Channel, list[_Active]] = {channel: [] for channel in Channel}

    def set(self, channel: Channel, faults: Sequence[Fault]) -> None:
        """Replaces the channel's faults; their counts and clocks start now."""
        now = self._clock()
        self._active[channel] = [
            _Active(
                fault,
                remaining=fault.count if isinstance(fault, OccasionalFault) else None,
                ends_at=None if fault.for_seconds is None else now + fault.for_seconds,
            )
            for fault in faults
        ]

    def take(self, channel: Channel, to: Collection[str] = (), stage: Stage = "data") -> FaultEffect:
        """Decides about one message, and uses up one of each fault's `count` that took part.

        In the order given: delays add up, and the first fault of another kind is the answer.
        """
        if not self._active[channel]:
            return NO_FAULT
        delay = 0.0
        for active in self._current(channel):
            fault = active.fault
            if not isinstance(fault, OccasionalFault) or not fault.strikes_at(stage):
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
        """The outage that lasts longest, if the channel's port should be closed now."""
        outages = [each.fault for each in self._current(channel) if isinstance(each.fault, Refuse)]
        return max(outages, key=lambda each: each.for_seconds or float("inf"), default=None)

    def describe(self, channel: Channel) -> list[dict[str, Any]]:
        """The faults still on, as they were given, with what is left of their counts and times."""
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

    def _current(self, channel: Channel) -> list[_Active]:
        now = self._clock()
        self._active[channel] = [active for active in self._active[channel] if not active.over(now)]
        return self._active[channel]
