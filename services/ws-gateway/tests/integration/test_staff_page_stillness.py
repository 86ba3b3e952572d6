"""Nothing moves under a finger: the staff page in Chromium, with a real pointer."""

import asyncio
from typing import Any

import pytest

from tablebell.testing.chromium import Chromium, Tab

from .harness import RunningGateway, StartGateway
from .inbox_api import InboxApi
from .staff_page import BOTH, CARDS, GIULIA, button, is_shown, open_staff, reservation, text_of

pytestmark = pytest.mark.timeout(60)

PLACES = "[...document.querySelectorAll('.card')].map(card => [card.dataset.id, card.getBoundingClientRect().top])"


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


async def place_of(tab: Tab, expression: str) -> tuple[float, float]:
    box = await tab.evaluate(
        f"(box => [box.x + box.width / 2, box.y + box.height / 2])({expression}.getBoundingClientRect())"
    )
    return float(box[0]), float(box[1])


async def mouse(tab: Tab, kind: str, at: tuple[float, float]) -> None:
    pressed: dict[str, Any] = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
    await tab.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **pressed)


async def test_while_a_pointer_is_over_the_list_new_requests_wait_and_come_in_on_a_tap(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.resize(390, 844, mobile=True)
    hers = api.ids(GIULIA)[0]
    accept = await place_of(tab, button(hers, "CONFIRMED"))
    await mouse(tab, "mouseMoved", accept)
    before = await tab.evaluate(PLACES)
    for hours in (5, 6, 7):
        await gateway.publish(*api.add(*BOTH, **reservation("Earlier", 2, hours)))
    await tab.wait_for("document.querySelector('#open-count').textContent === '4'")
    assert await tab.evaluate(PLACES) == before
    assert await text_of(tab, "#bring-in") == "3 new"
    under = f"document.elementFromPoint({accept[0]}, {accept[1]}) === {button(hers, 'CONFIRMED')}"
    assert await tab.evaluate(under), "the button is still under the pointer"
    # A colleague answers the request that the pointer is on: its outcome appears in its place.
    await gateway.publish(*api.resolve(api.inboxes[GIULIA][hers], 51, "CONFIRMED"))
    await tab.wait_for(is_shown(".story"))
    assert await tab.evaluate(PLACES) == before
    tap = await place_of(tab, "document.querySelector('#bring-in')")
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        await mouse(tab, kind, tap)
    await tab.wait_for("document.querySelectorAll('.card').length === 3")
    assert await tab.evaluate(CARDS) == sorted(api.open(GIULIA))
    assert not await tab.evaluate(is_shown("#bring-in"))


async def test_a_scrolled_list_stays_where_it_is(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    for hours in range(20, 35):
        api.add(*BOTH, **reservation("Anna Bianchi", 4, hours))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.resize(390, 844, mobile=True)
    await tab.evaluate("scrollTo(0, 400)")
    await asyncio.sleep(0.2)
    before = await tab.evaluate(PLACES)
    await gateway.publish(*api.add(*BOTH, **reservation("Earlier", 2, 5)))
    await tab.wait_for(is_shown("#bring-in"))
    answered = api.inboxes[GIULIA][sorted(api.open(GIULIA))[2]]
    await gateway.publish(*api.resolve(answered, 51, "REJECTED"))
    await tab.wait_for(f"document.querySelector('[data-id=\"{answered.id}\"] .story').checkVisibility()")
    assert await tab.evaluate(PLACES) == before


async def test_an_untouched_list_at_the_top_takes_new_requests_in_by_itself(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await gateway.publish(*api.add(*BOTH, **reservation("Earlier", 2, 5)))
    await tab.wait_for("document.querySelectorAll('.card').length === 2")
    assert await tab.evaluate(CARDS) == sorted(api.ids(GIULIA), reverse=True), "the earlier visit is first"
    assert not await tab.evaluate(is_shown("#bring-in"))


async def test_a_tap_that_was_aimed_at_another_card_does_nothing(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    """The list is untouched, a finger is on its way, and a request comes in just before it lands."""
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.resize(390, 844, mobile=True)
    await tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    accept = await place_of(tab, button(api.ids(GIULIA)[0], "CONFIRMED"))
    landed = f"""new Promise(resolve => new MutationObserver(() => {{
        const target = document.elementFromPoint({accept[0]}, {accept[1]});
        target.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true, detail: 1}}));
        resolve(target.closest('.card')?.dataset.id);
    }}).observe(document.querySelector('#list'), {{childList: true}}))"""
    tapped = asyncio.create_task(tab.evaluate(landed))
    await asyncio.sleep(0.2)
    await gateway.publish(*api.add(*BOTH, **reservation("Earlier", 2, 5)))
    assert await tapped == str(api.ids(GIULIA)[0]), "another card was under the finger"
    await asyncio.sleep(0.5)
    assert len(api.open(GIULIA)) == 2
