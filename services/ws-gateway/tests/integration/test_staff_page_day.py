"""The tables of a day on the staff page, in Chromium: covers, search, who came, and cancelling."""

from datetime import UTC, datetime, timedelta

import pytest

from tablebell.testing.chromium import Chromium, Tab

from .harness import RunningGateway, StartGateway
from .inbox_api import ROME, InboxApi
from .staff_page import GIULIA, is_shown, open_staff, text_of

pytestmark = pytest.mark.timeout(60)

ROWS = "[...document.querySelectorAll('[data-table]')].map(row => Number(row.dataset.table))"


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


def today(hour: int, minute: int = 0) -> datetime:
    return datetime.now(ROME).replace(hour=hour, minute=minute, second=0, microsecond=0)


async def open_day(chromium: Chromium, gateway: RunningGateway, person: str = GIULIA) -> Tab:
    tab = await open_staff(chromium, gateway.http_url, person)
    await tab.evaluate("document.querySelector('[data-view=day]').click()")
    await tab.wait_for("document.querySelectorAll('[data-table]').length > 0")
    return tab


def act(table: int, name: str) -> str:
    return f"document.querySelector('[data-table=\"{table}\"] [data-act={name}]')"


async def test_the_day_shows_covers_per_time_and_in_total_and_can_be_searched(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    anna = api.add_table(today(20), "Anna Bianchi", 4, visits=3, noShows=1, note="Allergia alle noci")
    luca = api.add_table(today(20), "Luca Verdi", 2, status="ARRIVED")
    api.add_table(today(20), "Cancelled Guest", 9, status="CANCELLED")
    sara = api.add_table(today(21, 30), "Sara Blu", 6, status="NOT_ACCEPTED")
    later = api.add_table(today(20) + timedelta(days=1), "Tomorrow", 8)
    tab = await open_day(chromium, gateway)
    assert await tab.evaluate(ROWS) == [anna, luca, sara]
    assert await text_of(tab, "#covers") == "6 covers · 2 tables"
    times = await tab.evaluate("[...document.querySelectorAll('.time')].map(each => each.textContent)")
    assert times == ["20:00 6 covers", "21:30 0 covers"]
    assert await text_of(tab, ".history") == "came 3 times · did not come 1 time"
    assert await tab.evaluate("document.querySelector('.call').href") == "tel:+393330000005"
    await tab.evaluate("search = document.querySelector('#search'), search.value = 'verdi', search.oninput()")
    await tab.wait_for(f"String({ROWS}) === '{luca}'")
    tomorrow = f"{today(20) + timedelta(days=1):%Y-%m-%d}"
    await tab.evaluate("search.value = '', search.oninput()")
    await tab.evaluate(f"day = document.querySelector('#day'), day.value = '{tomorrow}', day.onchange()")
    await tab.wait_for(f"String({ROWS}) === '{later}'")
    await tab.evaluate("day.value = '2020-01-01', day.onchange()")
    await tab.wait_for(is_shown("#empty"))
    api.status = 503
    await tab.evaluate("day.value = '2020-01-02', day.onchange()")
    await tab.wait_for(is_shown("#failed"))
    api.status = None
    await tab.evaluate("document.querySelector('#retry').click()")
    await tab.wait_for(is_shown("#empty"))
    assert tab.page_errors == []


async def test_who_came_is_shown_on_all_screens_and_can_be_undone(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.inboxes[GIULIA] = {}
    now = datetime.now(UTC)
    table = api.add_table(now - timedelta(minutes=1), "Anna Bianchi", 4)
    soon = api.add_table(now + timedelta(minutes=1), "Luca Verdi", 2)
    first = await open_day(chromium, gateway)
    second = await open_day(chromium, gateway)
    await first.evaluate(f"{act(table, 'arrived')}.click()")
    for tab in (first, second):
        await tab.wait_for(f"{act(table, 'undo')}.checkVisibility()")
        assert not await tab.evaluate(f"{act(table, 'arrived')}.checkVisibility()")
    await second.evaluate(f"{act(table, 'undo')}.click()")
    for tab in (first, second):
        await tab.wait_for(f"{act(table, 'no-show')}.checkVisibility()")
    assert await first.evaluate(f"{act(soon, 'arrived')}.checkVisibility()")
    assert not await first.evaluate(f"{act(soon, 'no-show')}.checkVisibility()"), "its time has not come"


async def test_a_table_is_cancelled_with_a_reason(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    table = api.add_table(today(20), "Anna Bianchi", 4)
    other = api.add_table(today(20), "Luca Verdi", 2)
    tab = await open_day(chromium, gateway)
    await tab.evaluate(f"{act(table, 'cancel')}.click()")
    assert await tab.evaluate("document.activeElement.closest('[data-table]').dataset.table") == str(table)
    await tab.evaluate("document.activeElement.form.requestSubmit()")
    assert api.reasons == [], "a reason is required"
    await tab.call("Input.insertText", text="A pipe has burst")
    await tab.evaluate("document.activeElement.form.requestSubmit()")
    await tab.wait_for("document.querySelector('#covers').textContent === '2 covers · 1 table'")
    assert api.reasons == ["A pipe has burst"]
    assert await tab.evaluate(ROWS) == [table, other]
    assert await text_of(tab, f'[data-table="{table}"] .age') == "cancelled"
    assert not await tab.evaluate(f"{act(table, 'cancel')}.checkVisibility()")
