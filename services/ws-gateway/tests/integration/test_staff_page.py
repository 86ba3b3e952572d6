"""The staff page in Chromium: it tells the truth about what is open, answered, loading and failed."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from tablebell.rabbit import Broker
from tablebell.testing import eventually, free_port
from tablebell.testing.chromium import Chromium
from tablebell.testing.tokens import token

from .harness import RunningGateway, StartGateway, gateway_process, publish
from .inbox_api import InboxApi
from .staff_page import BOTH, CARDS, GIULIA, IS_LIVE, MARCO, button, is_shown, open_staff, press, reservation, text_of

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


async def test_when_one_accepts_the_buttons_of_the_others_disappear_and_all_see_who_did(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    giulia = await open_staff(chromium, gateway.http_url, GIULIA)
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    await gateway.publish(*api.add(*BOTH, **reservation("Luca Verdi", 2, 6)))
    hers, his = api.ids(GIULIA)[0], api.ids(MARCO)[0]
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{button(own, 'CONFIRMED')} !== null")
    assert await text_of(giulia, "#open-count") == "2"
    assert await giulia.evaluate("document.title") == "(2) Trattoria del Porto"
    await giulia.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    for tab, own in ((giulia, hers), (marco, his)):
        await tab.wait_for(f"{button(own, 'CONFIRMED')} === null")
        assert (await text_of(tab, f'[data-id="{own}"] .story')).startswith("Giulia accepted the table for ")
        await tab.wait_for("document.querySelector('#open-count').textContent === '1'")
        await tab.wait_for("document.title === '(1) Trattoria del Porto'")
    assert "Giulia accepted" in await text_of(marco, "#announcer")
    assert giulia.page_errors == marco.page_errors == []


async def test_a_late_decision_shows_who_was_faster(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    his = api.ids(MARCO)[0]
    await marco.wait_for(f"{button(his, 'REJECTED')} !== null")
    api.resolve(api.inboxes[MARCO][his], 50, "CONFIRMED")  # the frame is lost
    await marco.evaluate(f"{button(his, 'REJECTED')}.click()")
    await marco.wait_for(f"{button(his, 'REJECTED')} === null")
    assert await text_of(marco, "#toast") == "Giulia was faster."


async def test_a_proposed_time_is_in_the_restaurants_time_zone_and_becomes_the_time_of_the_card(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    slot: dict[str, Any] = {
        "customerName": "Anna",
        "partySize": 4,
        "slotTime": "2027-07-14T18:00:00Z",
        "timezone": "Europe/Rome",
    }
    api.add(*BOTH, **slot)
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    hers = api.ids(GIULIA)[0]
    assert await text_of(tab, ".hour") == "20:00"
    assert await text_of(tab, ".day") == "Wed, 14 Jul 2027", "the year, when it is not this one"
    await tab.evaluate(f"{button(hers, 'POSTPONED')}.click()")
    assert await tab.evaluate("document.activeElement.value") == "2027-07-14T20:30"
    await tab.evaluate("document.querySelector('.propose').requestSubmit()")
    await tab.wait_for(is_shown(".story"))
    day = "Wednesday, 14 July 2027"
    assert await text_of(tab, ".story") == f"Giulia proposed {day} at 20:30 instead of {day} at 20:00"
    assert await text_of(tab, ".hour") == "20:30"
    assert api.proposed_times == ["2027-07-14T20:30:00"]


async def test_a_guests_confirmation_of_a_proposed_time_is_shown_with_that_time(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    guest = {"userType": "CUSTOMER", "userId": 5, "name": "Anna Bianchi"}
    times = {"slotTime": "2027-07-14T19:00:00Z", "previousSlotTime": "2027-07-14T18:00:00Z", "timezone": "Europe/Rome"}
    details: dict[str, Any] = {"customerName": "Anna Bianchi", "partySize": 4, "actor": guest, **times}
    await gateway.publish(*api.add(GIULIA, event_type="RESERVATION_ACCEPTED", **details))
    await tab.evaluate("document.querySelector('[data-view=all]').click()")
    await tab.wait_for("document.querySelectorAll('.card').length === 1")
    day = "Wednesday, 14 July 2027"
    expected = f"Anna Bianchi confirmed the proposed time: {day} at 21:00 instead of {day} at 20:00"
    assert await text_of(tab, ".story") == expected
    assert await text_of(tab, ".party") == "4 guests"


async def test_a_guests_cancellation_says_what_happened_by_whom_and_when(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    slot: dict[str, Any] = {"customerName": "Luís Pereira", "partySize": 4, "slotTime": "2027-07-14T18:00:00Z"}
    api.add(*BOTH, **slot, timezone="Europe/Rome")
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    request = api.inboxes[GIULIA][api.ids(GIULIA)[0]]
    await gateway.publish(*api.resolve(request, 6, "CUSTOM", by_guest="Luís Pereira"))
    await tab.wait_for(is_shown(".story"))
    assert await text_of(tab, ".story") == "Luís Pereira cancelled the table on Wednesday, 14 July 2027 at 20:00"


async def test_what_is_open_comes_from_the_server_however_much_other_traffic_there_is(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    for number in range(17):
        api.add(*BOTH, **reservation(f"Guest {number}", 2, 30 + number))
    for _ in range(120):
        api.add(*BOTH, event_type="RESERVATION_CANCELLED", **reservation("Anna Bianchi", 2, 60))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    assert await text_of(tab, "#open-count") == "17"
    assert await tab.evaluate(CARDS) == sorted(api.open(GIULIA)), "the earliest visit first"
    # A colleague answers one of them; it is older than everything that the page has loaded of the inbox.
    oldest = api.inboxes[GIULIA][min(api.open(GIULIA))]
    await gateway.publish(*api.resolve(oldest, 51, "REJECTED"))
    await tab.wait_for("document.querySelector('#open-count').textContent === '16'")
    assert (await text_of(tab, f'[data-id="{oldest.id}"] .story')).startswith("Marco declined the request for")


async def test_loading_failed_and_empty_are_three_different_states(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.is_answering.clear()
    tab = await chromium.open(f"{gateway.http_url}/staff#token={token(GIULIA)}")
    states = "['loading', 'failed', 'empty'].filter(id => document.getElementById(id).checkVisibility()).join()"
    await tab.wait_for(f"{states} === 'loading'")
    api.status = 503
    api.is_answering.set()
    await tab.wait_for(f"{states} === 'failed'")
    api.status = None
    await tab.evaluate("document.querySelector('#retry').click()")
    await tab.wait_for(f"{states} === 'empty'")
    # The API fails after the list was read: the list stays, and the page says that it is out of date.
    await gateway.publish(*api.add(GIULIA, **reservation("Anna Bianchi", 4, 30)))
    await tab.wait_for("document.querySelectorAll('.card').length === 1")
    api.status = 503
    await tab.evaluate("dispatchEvent(new Event('online'))")
    await tab.wait_for(is_shown("#not-current"))
    assert await tab.evaluate("document.querySelectorAll('.card').length") == 1
    assert await tab.evaluate(states) == ""
    api.status = None
    await tab.wait_for(f"!({is_shown('#not-current')})", within=20)


async def test_hiding_concerns_its_owner_alone_and_the_request_stays_open_for_the_colleagues(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    first = await open_staff(chromium, gateway.http_url, GIULIA)
    elsewhere = await open_staff(chromium, gateway.http_url, GIULIA)
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    hers, his = api.ids(GIULIA)[0], api.ids(MARCO)[0]
    await first.evaluate(f"{button(hers, 'DISMISSED')}.click()")
    for tab in (first, elsewhere):
        await tab.wait_for("document.querySelector('#open-count').textContent === '0'")
        assert "Your colleagues still see it" in await text_of(tab, ".story")
    assert await text_of(marco, "#open-count") == "1"
    assert await marco.evaluate(f"{button(his, 'CONFIRMED')} !== null")
    assert await marco.evaluate("document.querySelector('.story').hidden")
    # It can still be found and answered.
    again = await open_staff(chromium, gateway.http_url, GIULIA)
    assert await again.evaluate(is_shown("#empty"))
    await again.evaluate("document.querySelector('[data-view=all]').click()")
    await again.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    await marco.wait_for("document.querySelector('#open-count').textContent === '0'")


async def test_errors_are_sentences_and_disappear_when_they_are_no_longer_true(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    hers = api.ids(GIULIA)[0]
    api.status = 503
    await tab.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    await tab.wait_for(is_shown("#toast"))
    assert await text_of(tab, "#toast") == (
        "The system does not answer: your answer was not sent. Try again in a moment."
    )
    api.status = 409
    await tab.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    await tab.wait_for("document.querySelector('#toast').textContent.startsWith('This is no longer possible')")
    api.status = None
    await gateway.publish(*api.resolve(api.inboxes[GIULIA][hers], 51, "CONFIRMED"))
    await tab.wait_for(f"!({is_shown('#toast')})")


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
        await tab.wait_for(f"!({IS_LIVE})")
        await tab.wait_for(is_shown("#not-current"))
    await publish(broker, api.add(*BOTH, **reservation("Meanwhile", 3, 7)))
    async with gateway_process(amqp_url, port, log, PUBLIC_API_URL=api.url):
        await publish(broker, api.add(*BOTH, **reservation("After", 4, 8)))
        for tab, person in zip(tabs, BOTH, strict=True):
            expected = ",".join(map(str, sorted(api.ids(person))))
            await tab.wait_for(f"String({CARDS}) === '{expected}'", within=30)
            await tab.wait_for("document.querySelector('#open-count').textContent === '3'")
            await tab.wait_for(IS_LIVE)
        await asyncio.sleep(0.3)
        assert [await tab.evaluate(CARDS) for tab in tabs] == [sorted(api.ids(person)) for person in BOTH]


async def test_sign_in_by_keyboard_and_sign_out(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    api.add(GIULIA, **reservation("Anna Bianchi", 4, 30))
    tab = await chromium.open(f"{gateway.http_url}/staff")
    await tab.wait_for("document.activeElement.id === 'token'")
    await tab.call("Input.insertText", text=token(GIULIA))
    await press(tab, "Enter", "\r")
    await tab.wait_for(IS_LIVE)
    await tab.wait_for("document.querySelectorAll('.card').length === 1")
    # Tab moves from button to button. A focused card counts as read.
    for _ in range(14):
        await press(tab, "Tab")
        if await tab.evaluate("document.activeElement.dataset.action === 'CONFIRMED'"):
            break
    await press(tab, "Enter", "\r")
    await tab.wait_for(is_shown(".story"))
    await tab.wait_for("document.activeElement.classList.contains('card')")
    await eventually(lambda: api.unread(GIULIA) == 0)
    await tab.evaluate("document.querySelector('#sign-out').click()")
    await tab.wait_for("document.activeElement.id === 'token'")
    assert await tab.evaluate("sessionStorage.length") == 0


async def test_a_bad_token_returns_to_the_sign_in(gateway: RunningGateway, chromium: Chromium) -> None:
    tab = await chromium.open(f"{gateway.http_url}/staff#token=invalid")
    await tab.wait_for("!document.querySelector('#sign-in-problem').hidden")
    assert "token" not in await tab.evaluate("location.href")


async def test_a_link_cannot_switch_the_session(gateway: RunningGateway, chromium: Chromium) -> None:
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    await tab.evaluate(f"location.hash = 'token={token(MARCO)}'; location.reload()")
    await tab.wait_for("location.hash === '' && document.querySelector('#who').textContent.includes('Giulia')")
    await tab.wait_for(IS_LIVE)
    assert await tab.evaluate(f"sessionStorage.getItem('tablebell.token') !== '{token(MARCO)}'")


async def test_the_policy_names_the_hosts_of_the_sockets_and_of_the_api(start_gateway: StartGateway) -> None:
    async def connect_sources(gateway: RunningGateway, host: str) -> list[str]:
        async with httpx.AsyncClient(base_url=gateway.http_url) as http:
            answer = await http.get("/staff", headers={"Host": host})
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["frame-ancestors"] == "'none'"
        return policy["connect-src"].split()

    own = ["'self'", "ws://staff.example:8081", "wss://staff.example:8081"]
    gateway = await start_gateway(public_api_url="https://api.example/v1")
    assert await connect_sources(gateway, "staff.example:8081") == [*own, "https://api.example"]
    assert await connect_sources(gateway, "x; script-src *") == ["'self'", "https://api.example"]
    gateway = await start_gateway(public_api_url="")
    expected = [*own, "http://staff.example:8080", "https://staff.example:8080"]
    assert await connect_sources(gateway, "staff.example:8081") == expected


async def test_what_is_not_a_file_is_not_stored_and_nothing_is_sniffed(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http_url) as http:
        for path in ("/config.json", "/health/live", "/health/ready", "/metrics", "/nothing"):
            answer = await http.get(path)
            assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == (
                "no-store",
                "nosniff",
            )
        assert (await http.get("/staff")).headers["X-Content-Type-Options"] == "nosniff"


async def test_the_page_says_who_and_where_in_the_readers_language(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    # The stand-in has one locale for all; a person's own comes from their profile.
    api.add(GIULIA, **reservation("Anna Bianchi", 1, 30))
    for locale, accept, guests in (
        ("it", "Accetta", "1 persona"),
        ("en_GB", "Accept", "1 guest"),
        ("es", "Aceptar", "1 persona"),
        ("pt-BR", "Aceitar", "1 pessoa"),
        ("fr", "Accetta", "1 persona"),
    ):
        api.locale = locale
        tab = await open_staff(chromium, gateway.http_url, GIULIA)
        assert await tab.evaluate("document.documentElement.lang") == (locale[:2] if locale != "fr" else "it")
        assert await text_of(tab, "[data-action=CONFIRMED]") == accept
        assert await text_of(tab, ".party") == guests
        assert await text_of(tab, "#place") == "Trattoria del Porto"
        assert (await text_of(tab, "#who")).startswith("Giulia Ferri · ")


async def test_every_language_has_the_same_texts_and_fields(gateway: RunningGateway, chromium: Chromium) -> None:
    tab = await chromium.open(f"{gateway.http_url}/staff")
    fields = """(async () => {
      const all = {};
      for (const code of ["it", "en", "es", "pt"]) {
        const { default: texts } = await import(`/staff/language/${code}.js`);
        all[code] = Object.entries(texts).map(([name, text]) =>
          [name, ...new Set(JSON.stringify(text).match(/\\{\\w+\\}/g) ?? [])].sort().join());
      }
      return all;
    })()"""
    texts = await tab.evaluate(fields)
    assert len(texts["it"]) > 50
    assert texts["it"] == texts["en"] == texts["es"] == texts["pt"]


async def test_somebody_who_is_not_staff_is_told_so(gateway: RunningGateway, chromium: Chromium) -> None:
    tab = await chromium.open(f"{gateway.http_url}/staff#token={token('CUSTOMER:5')}")
    await tab.wait_for(is_shown("#stranger"))
    assert "You are signed in as Anna Ferri, who does not work at a restaurant." in await text_of(tab, "#stranger")
    assert not await tab.evaluate(is_shown("#inbox"))
    assert await tab.evaluate(is_shown("#sign-out"))


async def test_a_new_request_is_heard_unless_the_sound_is_off(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(GIULIA, **reservation("Anna Bianchi", 1, 30))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    played = "(async () => (await import('/shared/sound.js')).sound.played)()"
    assert await tab.evaluate(played) == 0
    await gateway.publish(*api.add(GIULIA, **reservation("Luca Verdi", 2, 30)))
    await tab.wait_for(f"{played}.then(count => count === 1)")
    await tab.evaluate("document.querySelector('#sound').click()")
    assert await tab.evaluate("document.querySelector('#sound').ariaLabel") == "Sound off"
    await gateway.publish(*api.add(GIULIA, **reservation("Sara Blu", 2, 30)))
    await tab.wait_for("document.querySelector('#open-count').textContent === '3'")
    assert await tab.evaluate(played) == 1


async def test_a_request_shows_how_long_it_has_waited_and_when_that_is_too_long(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(GIULIA, waited=timedelta(minutes=12), **reservation("Tonight", 2, 3))
    api.add(GIULIA, waited=timedelta(minutes=12), **reservation("Next week", 2, 170))
    api.add(GIULIA, waited=timedelta(hours=5), **reservation("Missed", 2, -1))
    tab = await open_staff(chromium, gateway.http_url, GIULIA)
    ages = await tab.evaluate("[...document.querySelectorAll('.age')].map(age => age.textContent)")
    late = await tab.evaluate("[...document.querySelectorAll('.card')].map(card => card.classList.contains('late'))")
    assert list(zip(ages, late, strict=True)) == [
        ("waiting 12 mins", True),
        ("waiting 12 mins", False),
        ("the time has passed", True),
    ]
    assert await text_of(tab, "#late") == "2 have waited too long"


async def test_files_have_their_types_and_are_not_sent_again_when_unchanged(gateway: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.http_url) as http:
        client = await http.get("/tablebell.js")
        assert client.headers["Content-Type"].startswith("text/javascript")
        assert client.headers["Access-Control-Allow-Origin"] == "*"
        again = await http.get("/tablebell.js", headers={"If-None-Match": client.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await http.get("/staff/language/it.js")).status_code == 200
        assert (await http.get("/")).headers["Location"] == "/staff"
        for missing in ("/nothing", "/../settings.py", "/static/staff.html", "/%2e%2e/settings.py", "/staff/"):
            assert (await http.get(missing)).status_code == 404
        assert (await http.post("/staff")).status_code == 405
        assert (await http.get("/ws")).status_code == 426
        assert (await http.get("/health/live")).json() == {"status": "live"}
