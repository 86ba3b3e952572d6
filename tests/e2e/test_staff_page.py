"""The staff page in Chromium against the running system: two windows, a decision, and a killed gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from chaos.environment import ChaosEnvironment
from tests.e2e.conftest import start_system
from tests.e2e.harness import STAFF, ReservationHarness

from tablebell.testing import eventually
from tablebell.testing.chromium import Chromium, Tab, chromium_process, open_chromium

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def browser() -> Iterator[int]:
    with chromium_process() as port:
        yield port


@pytest.fixture
async def chromium(browser: int) -> AsyncIterator[Chromium]:
    async with open_chromium(browser) as chromium:
        yield chromium


async def open_staff(chromium: Chromium, environment: ChaosEnvironment, person: str) -> Tab:
    page = environment.gateway_urls[0].replace("ws:", "http:", 1)
    tab = await chromium.open(f"{page}/staff#token={environment.tokens.issue(person)}")
    await tab.wait_for("document.querySelector('#state').dataset.state === 'live'", within=20)
    return tab


def card(notification_id: int) -> str:
    return f"document.querySelectorAll('[data-id=\"{notification_id}\"]')"


def accept(notification_id: int) -> str:
    return f"document.querySelector('[data-id=\"{notification_id}\"] [data-action=CONFIRMED]')"


TOLD = "SELECT count(*) FROM event_notification WHERE reservation_id = $1 AND audience = 'RESTAURANT'"


async def request_of(table: ReservationHarness, person: str, reservation: int) -> int:
    await eventually(lambda: table.count(TOLD, reservation), within=20)
    return int((await table.request_of(person, reservation))["id"])


async def test_after_one_accepts_the_other_window_has_no_buttons(
    environment: ChaosEnvironment, table: ReservationHarness, chromium: Chromium
) -> None:
    giulia, marco = [await open_staff(chromium, environment, person) for person in STAFF[:2]]
    reservation = await table.ask()
    hers, his = [await request_of(table, person, reservation) for person in STAFF[:2]]
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{accept(own)} !== null", within=20)
    await giulia.evaluate(f"{accept(hers)}.click()")
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{accept(own)} === null", within=20)
        shown = await tab.evaluate(f"{card(own)}[0].querySelector('.story').textContent")
        assert "Giulia Ferri\u2069 ha accettato il tavolo per" in shown
    assert giulia.page_errors == marco.page_errors == []


async def test_after_a_killed_gateway_nothing_is_missing_or_duplicated(
    environment: ChaosEnvironment, table: ReservationHarness, chromium: Chromium
) -> None:
    tab = await open_staff(chromium, environment, STAFF[0])
    before = await table.ask()
    await tab.wait_for(f"{card(await request_of(table, STAFF[0], before))}.length === 1", within=20)
    await asyncio.gather(*(each.kill() for each in environment.services if each.name == "ws-gateway"))
    await tab.wait_for("document.querySelector('#state').dataset.state !== 'live'", within=20)
    meanwhile = await table.ask()
    await asyncio.to_thread(start_system)
    after = await table.ask()
    await tab.wait_for("document.querySelector('#state').dataset.state === 'live'", within=40)
    for reservation in (before, meanwhile, after):
        own = await request_of(table, STAFF[0], reservation)
        await tab.wait_for(f"{card(own)}.length >= 1", within=20)
        assert await tab.evaluate(f"{card(own)}.length") == 1
