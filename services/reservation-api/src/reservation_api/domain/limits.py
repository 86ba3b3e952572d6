"""Limits on requests and changes, so that nobody can flood others with notifications. Pure."""

from dataclasses import dataclass, replace
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """0 disables a limit."""

    open_requests_per_customer: int
    """Undecided requests for a future time."""
    open_requests_per_restaurant: int
    requests_per_hour: int
    """Per customer, including requests by their agency."""
    changes_per_hour: int
    """Per person. A cancellation counts, but is never refused."""
    table_gap: timedelta
    """The minimum between two reservations of one customer."""

    def of_confirmation(self) -> "Limits":
        """Confirming a proposed time does not count as a change."""
        return replace(self, changes_per_hour=0)


def reason(reached: str, limits: Limits) -> str:
    """The problem detail for the limit of this name."""
    match reached:
        case "table_gap":
            hours = limits.table_gap / timedelta(hours=1)
            return f"The customer has another reservation within {hours:g} hours of that time."
        case "open_requests_per_customer":
            maximum = limits.open_requests_per_customer
            return f"The customer already has {maximum} open requests. Wait for an answer or cancel one."
        case "open_requests_per_restaurant":
            return "The restaurant has too many open requests. Try again later."
        case "requests_per_hour":
            return f"A customer may make {limits.requests_per_hour} requests per hour."
        case "changes_per_hour":
            return f"A person may change reservations {limits.changes_per_hour} times per hour."
        case _:
            raise ValueError(f"unknown limit: {reached}")
