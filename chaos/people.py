"""The people of a run: restaurants with two members of staff each, and customers, half of them of an agency."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.store import Connection, append_people

RESTAURANTS = 5
CUSTOMERS = 20
ADMINS = ("admin_user:1", "admin_user:2")  # from the demo data


@dataclass(frozen=True, slots=True)
class Restaurant:
    id: int
    staff: Sequence[str]


@dataclass(frozen=True, slots=True)
class People:
    restaurants: Sequence[Restaurant]
    customers: Sequence[int]
    agents: Sequence[str]

    def with_browsers(self) -> list[str]:
        """The people with an open browser: all user types, and both members of a staff."""
        staff = [member for restaurant in self.restaurants[:3] for member in restaurant.staff]
        customers = [f"customer:{each}" for each in self.customers[:4]]
        return [*staff, *customers, ADMINS[0], *self.agents]


async def create_people(connection: Connection) -> People:
    row = await append_people(connection, RESTAURANTS, CUSTOMERS)
    staff: dict[int, list[str]] = {}
    for restaurant, member in zip(row["staffed"], row["staff"], strict=True):
        staff.setdefault(restaurant, []).append(f"restaurant_user:{member}")
    restaurants = [Restaurant(identity, members) for identity, members in sorted(staff.items())]
    return People(restaurants, row["customers"], [f"agency_user:{each}" for each in row["agents"]])
