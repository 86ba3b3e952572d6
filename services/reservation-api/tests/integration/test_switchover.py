"""A switchover: the service is not ready while it cannot write, and recovers without a restart."""

from collections.abc import Iterator

import httpx
import pytest

from tablebell.testing import Database, VirtualAddress, eventually
from tablebell.testing.database import make_database
from tablebell_local.replication import Replication
from tablebell_local.testing import open_replication

from .conftest import token
from .processes import replicas

WITHIN = 5.0


@pytest.fixture(scope="module")
def replication(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replication]:
    with open_replication(tmp_path_factory.mktemp("replication")) as replication:
        yield replication


@pytest.fixture(scope="module")
def replicated(replication: Replication) -> Database:
    return make_database(replication.url("postgres"))


def customer(url: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token('CUSTOMER', 5)}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=15)


async def ask(client: httpx.AsyncClient, day: int) -> bool:
    body = {"customerId": 5, "restaurantId": 10, "partySize": 2, "slotTime": f"2027-03-{day:02}T20:00:00"}
    answer = await client.post("/customer/reservation/ask", json=body, headers={"Idempotency-Key": f"day-{day}"})
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


@pytest.mark.timeout(120)
async def test_requests_succeed_on_the_new_primary(replication: Replication, replicated: Database) -> None:
    async with replicas(replicated, 1) as (replica,), customer(replica.url) as client:
        assert await ask(client, 1)
        for day in (2, 3):
            await replication.switch_over()
            await eventually(lambda day=day: ask(client, day), within=WITHIN)  # type: ignore[misc]
            await replication.follow()
            assert (await client.get("/health/ready")).status_code == 200


@pytest.mark.timeout(120)
async def test_a_service_on_a_demoted_server_is_not_ready(replication: Replication, replicated: Database) -> None:
    old = replication.primary
    async with (
        VirtualAddress(old.ports[old.name]).open() as address,
        replicas(replicated.at(address.port), 1) as (replica,),
        customer(replica.url) as client,
    ):
        assert await ask(client, 10)
        await replication.switch_over()
        await replication.follow()  # the address still points to the old primary, now a standby

        answer = await client.get("/health/ready")
        assert answer.status_code == 503
        assert "read-only" in answer.text
        assert not await ask(client, 11)

        address.target = replication.primary.ports[replication.primary.name]
        await eventually(lambda: ask(client, 11), within=WITHIN)
        assert (await client.get("/health/ready")).status_code == 200
