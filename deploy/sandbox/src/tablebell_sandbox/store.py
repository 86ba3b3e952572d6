"""Stores received messages in memory.

The newest `bound` messages are kept in full. Counts and keys cover every message since the last `clear`, so that
duplicates can be counted over a long benchmark.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.message import Content, Record


@dataclass(slots=True)
class Count:
    accepted: int = 0
    refused: int = 0


class Store:
    def __init__(self, bound: int) -> None:
        self._records: deque[Record] = deque(maxlen=bound)
        self._last_sequence = 0
        self._keys: dict[Channel, list[str]] = {}
        self._counts: dict[Channel, Count] = {}
        self.clear()

    def accept(self, channel: Channel, to: Iterable[str], key: str, content: Content) -> Record:
        self._last_sequence += 1
        record = Record(self._last_sequence, channel, time.time(), tuple(to), key, content)
        self._records.append(record)
        self._keys[channel].append(key)
        self._counts[channel].accepted += 1
        return record

    def refuse(self, channel: Channel) -> None:
        self._counts[channel].refused += 1

    def clear(self) -> None:
        """Sequence numbers continue to rise, so that a client's `since` stays valid."""
        self._records.clear()
        self._keys = {channel: [] for channel in Channel}
        self._counts = {channel: Count() for channel in Channel}

    def counts(self) -> dict[Channel, Count]:
        return self._counts

    def keys(self, channel: Channel) -> list[str]:
        return self._keys[channel]

    @property
    def last_sequence(self) -> int:
        return self._last_sequence

    @property
    def oldest_sequence(self) -> int:
        """The sequence number of the oldest stored message, or of the next one if the store is empty."""
        return self._records[0].sequence if self._records else self._last_sequence + 1

    def get(self, sequence: int) -> Record | None:
        index = sequence - self.oldest_sequence
        return self._records[index] if 0 <= index < len(self._records) else None

    def find(
        self, channel: Channel | None = None, to: str = "", since: int | None = None, limit: int | None = None
    ) -> list[Record]:
        """Matches in order of arrival: the first `limit` after `since`, or without `since` the newest `limit`."""
        wanted = to.casefold()

        def matching(records: Iterable[Record]) -> Iterator[Record]:
            for record in records:
                if channel is not None and record.channel is not channel:
                    continue
                if wanted and not any(wanted in address.casefold() for address in record.to):
                    continue
                yield record

        if since is not None:
            skipped = max(0, since + 1 - self.oldest_sequence)
            return list(islice(matching(islice(self._records, skipped, None)), limit))
        newest = list(islice(matching(reversed(self._records)), limit))
        newest.reverse()
        return newest
