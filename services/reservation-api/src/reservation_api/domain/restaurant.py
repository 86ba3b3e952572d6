"""Opening hours and party size of a restaurant, in its own timezone. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Hours = Mapping[str, Sequence[Sequence[str]]]


class NotBookable(Exception):
    """The restaurant cannot accept the request; `field` is the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Restaurant:
    id: int
    name: str
    timezone: ZoneInfo
    accepts_reservations: bool
    max_party_size: int
    opening_hours: Hours | None
    """None: always open. A missing day: closed."""
    closures: Mapping[date, str | None]

    def check(self, field: str, slot_time: datetime, now: datetime, horizon: timedelta) -> datetime:
        """Return `slot_time` in UTC, or raise NotBookable if the restaurant takes no reservations for it."""
        if not self.accepts_reservations:
            raise NotBookable("restaurantId", f"{self.name} does not take reservations at the moment.")
        moment = self.moment(field, slot_time)
        if moment <= now:
            raise NotBookable(field, "The time is in the past.")
        if moment > now + horizon:
            raise NotBookable(field, f"Reservations are possible up to {horizon.days} days ahead.")
        self._check_open(field, moment.astimezone(self.timezone))
        return moment

    def available_times(
        self, day: date, party_size: int, step: timedelta, now: datetime, horizon: timedelta
    ) -> tuple[list[datetime], str | None]:
        """The times of a local day that `check` accepts, in steps from midnight, and why there are none.

        The steps are in elapsed time, so a day on which the clocks change has more or fewer of them.
        """
        times: list[datetime] = []
        reason = None
        try:
            self.check_party(party_size)
        except NotBookable as error:
            return times, error.reason
        moment, end = (
            datetime.combine(each, time.min, self.timezone).astimezone(UTC) for each in (day, day + timedelta(days=1))
        )
        while moment < end:
            try:
                times.append(self.check("slotTime", moment, now, horizon).astimezone(self.timezone))
            except NotBookable as error:
                reason = reason or error.reason
            moment += step
        return times, None if times else reason

    def check_party(self, party_size: int) -> None:
        if party_size > self.max_party_size:
            raise NotBookable("partySize", f"{self.name} seats parties of up to {self.max_party_size}.")

    def moment(self, field: str, written: datetime) -> datetime:
        """Convert to UTC. Without an offset, the restaurant's timezone applies; a repeated hour means the first one."""
        if written.tzinfo is not None:
            return written.astimezone(UTC)
        local = written.replace(tzinfo=self.timezone)
        moment = local.astimezone(UTC)
        if moment.astimezone(self.timezone).replace(tzinfo=None) != written:
            raise NotBookable(field, f"That time does not exist in {self.timezone}: the clocks go forward.")
        return moment

    def _check_open(self, field: str, local: datetime) -> None:
        # A sitting may end after midnight; it belongs to the day on which it began.
        for day in (local.date(), local.date() - timedelta(days=1)):
            if self._serves(day, local):
                if day in self.closures:
                    reason = self.closures[day]
                    raise NotBookable(field, f"{self.name} is closed on {day}" + (f" ({reason})." if reason else "."))
                return
        raise NotBookable(
            field, f"{self.name} is closed then. On {local:%A} it is open {self._hours_of(local.date())}."
        )

    def _serves(self, day: date, local: datetime) -> bool:
        if self.opening_hours is None:
            return day == local.date()
        wall = local.replace(tzinfo=None)
        for opens, closes in self.opening_hours.get(DAYS[day.weekday()], ()):
            begin = datetime.combine(day, time.fromisoformat(opens))
            end = datetime.combine(day, time.fromisoformat(closes))
            if begin <= wall < (end if end > begin else end + timedelta(days=1)):
                return True
        return False

    def _hours_of(self, day: date) -> str:
        sittings = (self.opening_hours or {}).get(DAYS[day.weekday()], ())
        return " and ".join(f"{opens} to {closes}" for opens, closes in sittings) or "not at all"
