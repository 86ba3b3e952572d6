"""How much one person may ask for, so that nobody can be flooded with messages. Pure."""

from dataclasses import dataclass, replace
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Limits:
    """0 is no limit."""

    open_requests_per_customer: int
    """Requests for a time to come that nobody has decided on yet."""
    open_requests_per_restaurant: int
    requests_per_hour: int
    """Of one customer, whoever asks for them."""
    changes_per_hour: int
    """Of one person, cancellations included. A cancellation is counted, but never refused."""
    table_gap: timedelta
    """Between two tables of one customer."""

    def of_confirmation(self) -> "Limits":
        """To confirm a proposed time is an answer, not a change."""
        return replace(self, changes_per_hour=0)


def reason(reached: str, limits: Limits) -> str:
    """What to tell a person, by the name of the limit."""
    match reached:
        case "table_gap":
            hours = limits.table_gap / timedelta(hours=1)
            return f"The customer has another reservation within {hours:g} hours of that time."
        case "open_requests_per_customer":
            most = limits.open_requests_per_customer
            return f"The customer has {most} open requests already. Wait for an answer, or cancel one."
        case "open_requests_per_restaurant":
            return "The restaurant has too many open requests at the moment."
        case "requests_per_hour":
            return f"There are {limits.requests_per_hour} requests for a customer within an hour at most."
        case "changes_per_hour":
            return f"A person may change reservations {limits.changes_per_hour} times within an hour at most."
        case _:
            raise ValueError(f"there is no limit called {reached}")
