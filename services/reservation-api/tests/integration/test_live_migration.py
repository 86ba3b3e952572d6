"""A migration while the service runs does not fail the next requests."""

import httpx
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import token
from .processes import replicas

REQUESTS = 12  # more than the pool's connections, so that each has prepared the statements
NEW_COLUMN = "ALTER TABLE reservation ADD COLUMN added_{number} text"
# The statements read this column: PostgreSQL then refuses the prepared ones, also inside a transaction.
OTHER_TYPE = "ALTER TABLE reservation ALTER COLUMN party_size TYPE {kind}"


def person(url: str, user_type: str, user_id: int) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token(user_type, user_id)}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=15)


async def ask(customer: httpx.AsyncClient, day: int) -> int:
    body = {"customerId": 5, "restaurantId": 10, "partySize": 2, "slotTime": f"2027-03-{day:02}T20:00:00"}
    answer = await customer.post("/customer/reservation/ask", json=body)
    assert answer.status_code == 200, answer.text
    reservation: int = answer.json()["id"]
    return reservation


@pytest.mark.parametrize(
    "migrations",
    [
        [NEW_COLUMN.format(number=number) for number in range(REQUESTS)],
        [OTHER_TYPE.format(kind=("bigint", "integer")[number % 2]) for number in range(REQUESTS)],
    ],
    ids=["a new column", "another type"],
)
async def test_every_request_after_a_migration_succeeds(database: Database, pool: Pool, migrations: list[str]) -> None:
    async with (
        replicas(database, 1) as (replica,),
        person(replica.url, "CUSTOMER", 5) as customer,
        person(replica.url, "RESTAURANT_USER", 50) as staff,
        person(replica.url, "ADMIN_USER", 1) as admin,
    ):

        async def use(reservation: int) -> None:
            """Run statements outside a transaction, in one, and in a snapshot."""
            for answer in (
                await staff.post(f"/restaurant/reservation/{reservation}/accept"),
                await customer.patch(f"/customer/reservation/{reservation}", json={"partySize": 3}),
                await customer.get(f"/customer/reservation/{reservation}"),
                await staff.get("/restaurant/reservation"),
                await admin.get(f"/admin/reservation/{reservation}/trace"),
            ):
                assert answer.status_code == 200, answer.text

        await use(await ask(customer, 1))
        for number, migration in enumerate(migrations):
            reservation = await ask(customer, number + 2)
            await pool.execute(migration)
            await use(reservation)
