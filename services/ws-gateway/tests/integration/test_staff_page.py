"""The staff page in Chromium: decisions in two windows, a gateway restart, the keyboard and small screens."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from tablebell.rabbit import Broker
from tablebell.testing import free_port
from tablebell.testing.chromium import Chromium, Tab
from tablebell.testing.tokens import token

from .harness import RunningGateway, StartGateway, gateway_process, publish
from .inbox_api import InboxApi

GIULIA, MARCO = "RESTAURANT_USER:50", "RESTAURANT_USER:51"
BOTH = (GIULIA, MARCO)

pytestmark = pytest.mark.timeout(60)


def reservation(name: str, guests: int, hours: int) -> dict[str, object]:
    slot = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
    return {"customerName": name, "partySize": guests, "slotTime": slot.isoformat(), "timezone": "Europe/Rome"}


async def open_staff(browser: Chromium, url: str, person: str) -> Tab:
    tab = await browser.open(f"{url}/staff#token={token(person)}")
    await tab.wait_for("document.querySelector('#state').dataset.state === 'live'")
    return tab


def button(notification_id: int, action: str) -> str:
    return f"document.querySelector('[data-id=\"{notification_id}\"] [data-action={action}]')"


CARDS = "[...document.querySelectorAll('.card')].map(card => Number(card.dataset.id))"


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


async def test_when_one_accepts_the_buttons_of_the_others_disappear(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    giulia = await open_staff(chromium, gateway.http_url, GIULIA)
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    await gateway.publish(*api.add(*BOTH, **reservation("Luca Verdi", 2, 6)))
    hers, his = api.ids(GIULIA)[0], api.ids(MARCO)[0]
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{button(own, 'CONFIRMED')} !== null")
    assert await giulia.evaluate("document.querySelector('#unread').textContent") == "2"
    assert await giulia.evaluate("document.title") == "(2) Tablebell"
    await giulia.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{button(own, 'CONFIRMED')} === null")
        shown = await tab.evaluate(f"document.querySelector('[data-id=\"{own}\"] .resolution').textContent")
        assert "handled by Giulia" in shown
    assert "handled by Giulia" in await marco.evaluate("document.querySelector('#announcer').textContent")
    assert giulia.page_errors == marco.page_errors == []


async def test_a_late_decision_shows_who_was_faster(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    his = api.ids(MARCO)[0]
    await marco.wait_for(f"{button(his, 'REJECTED')} !== null")
    api.resolve(api.inboxes[MARCO][his], 50, "CONFIRMED")  # the frame is lost
    await marco.evaluate(f"{button(his, 'REJECTED')}.click()")
    await marco.wait_for(f"{button(his, 'REJECTED')} === null")
    assert await marco.evaluate("document.querySelector('#toast').textContent") == "Giulia was faster."


async def test_a_proposed_time_is_in_the_restaurants_time_zone(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    slot = {"customerName": "Anna", "partySize": 4, "slotTime": "2027-07-14T18:00:00Z", "timezone": "Europe/Rome"}
    api.add(*BOTH, **slot)
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    hers = api.ids(GIULIA)[0]
    await tab.wait_for(f"{button(hers, 'POSTPONED')} !== null")
    await tab.evaluate(f"{button(hers, 'POSTPONED')}.click()")
    assert await tab.evaluate("document.activeElement.value") == "2027-07-14T20:30"
    await tab.evaluate("document.querySelector('.propose').requestSubmit()")
    await tab.wait_for("document.querySelector('.resolution')?.textContent.startsWith('Another time proposed')")
    assert api.proposed_times == ["2027-07-14T20:30:00"]


async def test_after_a_gateway_kill_nothing_is_missing_or_shown_twice(
    amqp_url: SecretStr, broker: Broker, api: InboxApi, chromium: Chromium, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    async with gateway_process(amqp_url, port, log, PUBLIC_API_URL=api.url) as process:
        tabs = [await open_staff(chromium, f"http://127.0.0.1:{port}", person) for person in BOTH]
        await publish(broker, api.add(*BOTH, **reservation("Before", 2, 6)))
        for tab, person in zip(tabs, BOTH, strict=True):
            await tab.wait_for(f"String({CARDS}) === '{api.ids(person)[0]}'")
        process.kill()
    for tab in tabs:
        await tab.wait_for("document.querySelector('#state').dataset.state !== 'live'")
    await publish(broker, api.add(*BOTH, **reservation("Meanwhile", 3, 7)))
    async with gateway_process(amqp_url, port, log, PUBLIC_API_URL=api.url):
        await publish(broker, api.add(*BOTH, **reservation("After", 4, 8)))
        for tab, person in zip(tabs, BOTH, strict=True):
            expected = ",".join(map(str, api.ids(person)))
            await tab.wait_for(f"String({CARDS}) === '{expected}'", within=30)
            await tab.wait_for("document.querySelector('#unread').textContent === '3'")
            await tab.wait_for("document.querySelector('#state').dataset.state === 'live'")
        await asyncio.sleep(0.3)
        assert [await tab.evaluate(CARDS) for tab in tabs] == [api.ids(person) for person in BOTH]


async def test_sign_in_by_keyboard_and_sign_out(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    api.add(GIULIA, **reservation("Anna Bianchi", 4, 30))
    tab = await chromium.open(f"{gateway.http_url}/staff")
    await tab.wait_for("document.activeElement.id === 'token'")
    await tab.call("Input.insertText", text=token(GIULIA))
    await press(tab, "Enter", "\r")
    await tab.wait_for("document.querySelector('#state').dataset.state === 'live'")
    await tab.wait_for("document.querySelectorAll('.card').length === 1")
    # Tab moves from button to button. A focused card counts as read.
    for _ in range(12):
        await press(tab, "Tab")
        if await tab.evaluate("document.activeElement.dataset.action === 'CONFIRMED'"):
            break
    await press(tab, "Enter", "\r")
    await tab.wait_for("document.querySelector('.resolution').textContent.includes('handled by Giulia')")
    await tab.wait_for("document.activeElement.classList.contains('card')")
    await tab.wait_for("document.querySelector('#unread').hidden")
    await tab.evaluate("document.querySelector('#sign-out').click()")
    await tab.wait_for("document.activeElement.id === 'token'")
    assert await tab.evaluate("sessionStorage.length") == 0


async def test_a_bad_token_returns_to_the_sign_in(gateway: RunningGateway, chromium: Chromium) -> None:
    tab = await chromium.open(f"{gateway.http_url}/staff#token=invalid")
    await tab.wait_for("!document.querySelector('#sign-in-problem').hidden")
    assert "token" not in await tab.evaluate("location.href")


ACCESSIBILITY = """[...document.querySelectorAll('button, input')].filter(each => each.checkVisibility())
    .filter(each => !each.textContent.trim() && !each.labels?.length && !each.ariaLabel).map(each => each.outerHTML)"""
SMALL_TARGETS = """[...document.querySelectorAll('button')].filter(each => each.checkVisibility())
    .filter(each => each.getBoundingClientRect().height < 40).map(each => each.outerHTML)"""


async def test_the_page_fits_phones_and_desktops_and_every_control_has_a_name(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Sofia Conti", 2, 6))
    done = api.inboxes[GIULIA][api.ids(GIULIA)[0]]
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    api.add(*BOTH, **reservation("Massimiliano della Rovere", 12, 54), note="Allergia alle noci, seggiolone")
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.wait_for("document.querySelectorAll('.card').length === 3")
    await gateway.publish(*api.resolve(done, 51, "CONFIRMED"))
    await tab.wait_for("document.querySelector('.card.done') !== null")
    for name, width, height, mobile in (("desktop", 1280, 900, False), ("phone", 390, 844, True)):
        await tab.resize(width, height, mobile=mobile)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
        assert await tab.evaluate(ACCESSIBILITY) == []
        assert await tab.evaluate(SMALL_TARGETS) == []
        await save(name, await tab.screenshot())
    await tab.use_dark()
    await save("phone-dark", await tab.screenshot())


async def test_files_have_their_types_and_are_not_sent_again_when_unchanged(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http_url) as http:
        client = await http.get("/tablebell.js")
        assert client.headers["Content-Type"].startswith("text/javascript")
        assert client.headers["Access-Control-Allow-Origin"] == "*"
        again = await http.get("/tablebell.js", headers={"If-None-Match": client.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await http.get("/")).headers["Location"] == "/staff"
        for missing in ("/nothing", "/../settings.py", "/static/staff.html", "/%2e%2e/settings.py"):
            assert (await http.get(missing)).status_code == 404
        assert (await http.post("/staff")).status_code == 405
        assert (await http.get("/ws")).status_code == 426
        assert (await http.get("/health/live")).json() == {"status": "live"}


async def press(tab: Tab, key: str, text: str = "") -> None:
    code = {"Enter": 13, "Tab": 9}[key]
    common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    await tab.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
    await tab.call("Input.dispatchKeyEvent", type="keyUp", **common)


async def save(name: str, picture: bytes) -> None:
    """Save a screenshot in the folder that SCREENSHOTS names."""
    assert picture.startswith(b"\x89PNG")
    if folder := os.environ.get("SCREENSHOTS"):
        await asyncio.to_thread((Path(folder) / f"staff-{name}.png").write_bytes, picture)
