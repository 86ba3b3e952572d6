"""The staff page as an installed app, in Chromium: it opens without a network with what was last known, and says so."""

import httpx
import pytest

from tablebell.testing import free_port
from tablebell.testing.chromium import Chromium, Tab
from tablebell.testing.tokens import token

from .harness import StartGateway
from .inbox_api import InboxApi
from .staff_page import BOTH, CARDS, GIULIA, IS_LIVE, MARCO, is_shown, open_staff, reservation, save, text_of
from .test_staff_page_day import ROWS, today

pytestmark = pytest.mark.timeout(60)

IS_KEPT = "JSON.parse(localStorage.getItem('tablebell.kept'))?.tables?.length > 0"
IS_CONTROLLED = "navigator.serviceWorker.controller?.state === 'activated'"
ANSWERS = "[...document.querySelectorAll('.card .actions [data-action]')]"
IS_OFF = "each => each.ariaDisabled === 'true'"


async def visit(chromium: Chromium, url: str, person: str = GIULIA) -> Tab:
    """Open the page, until the browser has everything to open it again without a network."""
    tab = await open_staff(chromium, url, person)
    await tab.wait_for(IS_CONTROLLED)
    await tab.wait_for(IS_KEPT)
    return tab


async def reopen(tab: Tab) -> None:
    await tab.evaluate("window.isOld = true")
    await tab.call("Page.reload")
    await tab.wait_for("!window.isOld && document.readyState === 'complete'")


async def test_without_a_network_the_page_opens_with_the_last_known_requests_and_tables_and_says_so(
    start_gateway: StartGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.locale = "it"
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 5))
    table = api.add_table(today(20), "Luca Verdi", 2)
    api.add_table(today(21), "Sara Blu", 2)
    port = free_port()
    gateway = await start_gateway(public_api_url=api.url, port=port)
    tab = await visit(chromium, gateway.http_url)
    known = await tab.evaluate(CARDS)
    api.status = 503
    gateway.stop.request()
    await tab.wait_for("document.querySelector('#state').dataset.state === 'offline'")
    await reopen(tab)
    await tab.wait_for(f"String({CARDS}) === '{known[0]}'")
    assert "Non in linea: situazione delle" in await text_of(tab, "#not-current")
    assert await text_of(tab, "#place") == "Trattoria del Porto"
    assert await text_of(tab, "#open-count") == "1"
    assert await tab.evaluate(f"{ANSWERS}.length > 0 && {ANSWERS}.every({IS_OFF})")
    await tab.resize(390, 844, mobile=True)
    await save("offline", await tab.screenshot())
    await tab.evaluate("document.querySelector('[data-view=day]').click()")
    await tab.wait_for(f"{ROWS}.length === 2")
    await tab.evaluate("search = document.querySelector('#search'), search.value = 'verdi', search.oninput()")
    await tab.wait_for(f"String({ROWS}) === '{table}'")
    await tab.evaluate("document.querySelector('[data-view=open]').click()")
    api.status = None
    api.add(*BOTH, **reservation("Nino Rossi", 2, 4))
    await start_gateway(public_api_url=api.url, port=port)
    await tab.wait_for(IS_LIVE, within=30)
    await tab.wait_for("document.querySelector('#open-count').textContent === '2'")
    await tab.wait_for("document.querySelector('#not-current').hidden")
    await tab.wait_for(f"!{ANSWERS}.some({IS_OFF})")
    assert tab.page_errors == []


async def test_what_was_kept_belongs_to_one_person_and_is_removed_at_sign_out(
    start_gateway: StartGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 5))
    api.add_table(today(20), "Luca Verdi", 2)
    gateway = await start_gateway(public_api_url=api.url)
    tab = await visit(chromium, gateway.http_url)
    api.status = 503
    other = await chromium.open(f"{gateway.http_url}/staff#token={token(MARCO)}", beside=tab)
    await other.wait_for(is_shown("#failed"))
    assert await other.evaluate(CARDS) == []
    assert await other.evaluate("localStorage.getItem('tablebell.kept')") is None
    api.status = None
    await other.wait_for(IS_KEPT, within=20)
    await other.evaluate("document.querySelector('#sign-out').click()")
    assert await other.evaluate("localStorage.getItem('tablebell.kept')") is None


async def test_the_page_can_be_installed(start_gateway: StartGateway, api: InboxApi, chromium: Chromium) -> None:
    api.add_table(today(20), "Luca Verdi", 2)
    gateway = await start_gateway(public_api_url=api.url)
    tab = await visit(chromium, gateway.http_url)
    manifest = await tab.call("Page.getAppManifest")
    assert manifest["errors"] == []
    errors = (await tab.call("Page.getInstallabilityErrors"))["installabilityErrors"]
    # Headless contexts are private windows, which install nothing.
    assert [each["errorId"] for each in errors if each["errorId"] != "in-incognito"] == []


async def test_a_release_changes_the_version_of_the_kept_files(start_gateway: StartGateway, api: InboxApi) -> None:
    one = await start_gateway(public_api_url=api.url)
    same = await start_gateway(public_api_url=api.url)
    other = await start_gateway(public_api_url="https://api.example.com")
    async with httpx.AsyncClient() as http:
        shells = [(await http.get(f"{each.http_url}/shell.js")).text for each in (one, same, other)]
    assert shells[0] == shells[1] != shells[2]
