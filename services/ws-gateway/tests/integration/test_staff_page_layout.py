"""The layout of the staff page in Chromium: small screens, hostile texts, accessibility in every state."""

import json
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tablebell.testing.chromium import Chromium, Tab
from tablebell.testing.tokens import token

from .harness import RunningGateway, StartGateway
from .inbox_api import ROME, InboxApi
from .staff_page import BOTH, GIULIA, button, is_shown, open_staff, reservation, save

BROWSER = Path(__file__).parent.parent / "browser"

pytestmark = pytest.mark.timeout(120)  # the first run may install axe-core

HOSTILE = {
    "long-word": "W" * 400,
    "right-to-left": "\u202e\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 " * 30,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f389" * 60,
    "2000-characters": "Vorremmo un tavolo tranquillo vicino alla finestra. " * 39,
    "lines": "a\n" * 200,
    "markup": "<script>document.title = 'x'</script><img src=x onerror=alert(1)>" * 6,
}
# Elements that are wider than the screen or reach over its edge.
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(each => each.checkVisibility())
    .filter(each => !each.closest('.sr-only, .skip, #state-text'))
    .filter(each => { const box = each.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
    .map(each => each.outerHTML.slice(0, 200))"""
SMALL_TARGETS = """[...document.querySelectorAll('button')].filter(each => each.checkVisibility())
    .filter(each => each.getBoundingClientRect().height < 40).map(each => each.outerHTML)"""
SCREENS = (("desktop", 1280, 900, False), ("phone", 390, 844, True), ("small", 320, 640, True))


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which npm installs from the lock file."""
    source = BROWSER / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=BROWSER, check=True, timeout=100)
    return source.read_text()


async def violations(tab: Tab, axe: str) -> list[str]:
    await tab.evaluate(f"window.axe === undefined && eval({json.dumps(axe)})")
    found = await tab.evaluate("axe.run().then(result => result.violations)")
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


async def check(tab: Tab, axe: str, name: str) -> None:
    """The page fits, every target is large enough and axe-core finds nothing: on each screen, light and dark."""
    await tab.call("Page.setBypassCSP", enabled=True)  # for axe-core, which the test evaluates
    for scheme in ("light", "dark"):
        await tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for screen, width, height, mobile in SCREENS:
            await tab.resize(width, height, mobile=mobile)
            where = f"{name}, {screen}, {scheme}"
            assert await tab.evaluate("document.documentElement.scrollWidth") <= width, where
            assert await tab.evaluate(OVERFLOWING) == [], where
            assert await tab.evaluate(SMALL_TARGETS) == [], where
            await save(f"{name}-{screen}-{scheme}", await tab.screenshot())
        assert await violations(tab, axe) == [], f"{name}, {scheme}"


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_that_anybody_can_type_breaks_the_layout(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, axe: str, text: str
) -> None:
    hostile = HOSTILE[text]
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 29))
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30, note=hostile))
    api.add(*BOTH, **reservation(hostile, 1000, 31, note=hostile))
    guest = {"userType": "CUSTOMER", "userId": 5, "name": hostile}
    api.add(*BOTH, **reservation(hostile, 4, 32), event_type="RESERVATION_CANCELLED", actor=guest)
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await check(tab, axe, f"hostile-{text}")
    title = await tab.evaluate("document.title")
    heights = await tab.evaluate("[...document.querySelectorAll('.card')].map(card => card.offsetHeight)")
    assert max(heights) < 320, "a long note is cut off until it is asked for"
    await tab.evaluate(
        "document.querySelectorAll('.all-of-note').forEach(each => each.checkVisibility() && each.click())"
    )
    await tab.evaluate(f"{button(api.ids(GIULIA)[-2], 'POSTPONED')}.click()")
    assert await tab.evaluate(OVERFLOWING) == []
    await tab.evaluate("document.querySelector('[data-view=all]').click()")
    assert await tab.evaluate("document.querySelectorAll('.card').length") == 4
    await check(tab, axe, f"hostile-{text}-all")
    assert await tab.evaluate("document.title") == title
    assert tab.page_errors == []


async def evening(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> Tab:
    """A realistic evening: requests for tonight and later, answered ones, a change, a cancellation."""
    guest = {"userType": "CUSTOMER", "userId": 6, "name": "Luís Pereira"}
    add, minutes = api.add, [timedelta(minutes=count) for count in range(35)]
    add(*BOTH, **reservation("Luís Pereira", 4, 26), event_type="RESERVATION_CANCELLED", actor=guest)
    add(*BOTH, waited=minutes[34], **reservation("Anna Bianchi", 4, 3, note="Allergia alle noci, un seggiolone"))
    add(*BOTH, waited=minutes[6], **reservation("Sofia Conti", 2, 4))
    add(*BOTH, waited=minutes[4], **reservation("Massimiliano della Rovere", 12, 28, note="Compleanno, torta nostra"))
    changed = {**reservation("Chiara Esposito", 6, 50), "previousPartySize": 4}
    add(*BOTH, waited=minutes[2], **changed, event_type="RESERVATION_CHANGED")
    add(*BOTH, waited=minutes[1], **reservation("Hans Müller", 3, 24 * 60))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.wait_for("document.querySelectorAll('.card').length === 5")
    answered = next(view for view in api.inboxes[GIULIA].values() if view.properties["customerName"] == "Sofia Conti")
    await gateway.publish(*api.resolve(answered, 51, "CONFIRMED"))
    await tab.wait_for(is_shown(".done .story"))
    return tab


async def test_the_tables_of_a_day_fit_phones_and_desktops_and_are_accessible(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, axe: str
) -> None:
    now = datetime.now(ROME)
    hostile = (HOSTILE["long-word"], HOSTILE["right-to-left"])
    names = ("Anna Bianchi", "Luís Pereira", "Massimiliano della Rovere", *hostile)
    for number, name in enumerate(names):
        at = now.replace(hour=19 + number // 2, minute=30, second=0, microsecond=0)
        status = "ARRIVED" if number == 1 else "ACCEPTED"
        note = name if name in hostile else "Allergia alle noci"
        api.add_table(at, name, 2 + number, status=status, note=note, noShows=number)
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.evaluate("document.querySelector('[data-view=day]').click()")
    await tab.wait_for("document.querySelectorAll('[data-table]').length === 5")
    await tab.evaluate("document.querySelector('[data-act=cancel]').click()")
    await check(tab, axe, "day")


async def test_every_state_fits_phones_and_desktops_and_is_accessible(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, axe: str
) -> None:
    tab = await chromium.open(f"{gateway.http_url}/staff")
    await tab.wait_for(is_shown("#sign-in"))
    await check(tab, axe, "sign-in")
    api.is_answering.clear()
    tab = await chromium.open(f"{gateway.http_url}/staff#token={token(GIULIA)}")
    await tab.wait_for(is_shown("#loading"))
    await check(tab, axe, "loading")
    api.status = 503
    api.is_answering.set()
    await tab.wait_for(is_shown("#failed"))
    await check(tab, axe, "failed")
    api.status = None
    await tab.evaluate("document.querySelector('#retry').click()")
    await tab.wait_for(is_shown("#empty"))
    await check(tab, axe, "empty")
    tab = await chromium.open(f"{gateway.http_url}/staff#token={token('CUSTOMER:5')}")
    await tab.wait_for(is_shown("#stranger"))
    await check(tab, axe, "stranger")


async def test_an_evening_fits_phones_and_desktops_and_is_accessible(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, axe: str
) -> None:
    api.locale = "it"
    tab = await evening(gateway, api, chromium)
    await check(tab, axe, "evening")
    await tab.resize(390, 844, mobile=True)
    visible = (
        "[...document.querySelectorAll('.card')].filter(each => each.getBoundingClientRect().bottom <= 844).length"
    )
    assert await tab.evaluate(visible) >= 3, "three whole cards on a phone"
    api.status = 503
    await tab.evaluate("document.querySelector('[data-action=REJECTED]').click()")
    await tab.wait_for(is_shown("#toast"))
    await tab.evaluate("document.querySelector('[data-action=POSTPONED]').click()")
    await check(tab, axe, "evening-failing")
    api.status = None
    await tab.evaluate("document.querySelector('[data-view=all]').click()")
    await check(tab, axe, "evening-all")


async def test_the_page_weighs_less_than_100_kilobytes(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    sizes = await tab.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        f".filter(each => each.name.startsWith('{gateway.http_url}')).map(each => [each.name, each.decodedBodySize])"
    )
    names = [name for name, _ in sizes]
    assert any(name.endswith("/tablebell.js") for name in names)
    assert any(name.endswith("/staff.css") for name in names)
    assert sum(size for _, size in sizes) < 100_000, sizes
