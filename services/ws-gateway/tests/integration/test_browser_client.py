"""tablebell.js in Chromium: after any interruption the page shows exactly the inbox, in order, without duplicates."""

import asyncio
import json
import random
import re
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from pydantic import SecretStr

from tablebell.rabbit import Broker
from tablebell.testing import Servers, eventually, free_port
from tablebell.testing.chromium import Chromium, Tab
from tablebell.testing.tokens import token

from .harness import RunningGateway, publish, running_gateway
from .inbox_api import InboxApi

ME = "RESTAURANT_USER:50"

pytestmark = pytest.mark.timeout(60)

START = """
(async () => {
  const every = window.setInterval.bind(window);
  window.setInterval = (action, milliseconds) => every(action, Math.min(milliseconds, %s));
  const { Inbox } = await import("/tablebell.js");
  window.tokens = %s;
  window.asked = [];
  window.states = [];
  window.inbox = new Inbox({
    socketUrl: location.origin.replace("http", "ws") + "/ws",
    apiUrl: "%s",
    token: async (why) => (window.asked.push(why), window.tokens.length > 1 ? window.tokens.shift() : window.tokens[0]),
  });
  inbox.addEventListener("state", () => states.push(inbox.state));
  inbox.start();
})()
"""
SHOWN = "inbox.items.map(item => [item.id, item.isRead, item.resolution?.actorName ?? null])"


async def open_inbox(
    browser: Chromium,
    gateway_url: str,
    api: InboxApi,
    *tokens: str,
    beside: Tab | None = None,
    audit_every: int = 300_000,
) -> Tab:
    tab = await browser.open(f"{gateway_url}/health/live", beside=beside)
    await tab.evaluate(START % (audit_every, json.dumps(tokens or [token(ME)]), api.url))
    await tab.wait_for("inbox.state === 'live'")
    return tab


def inbox_of(api: InboxApi, person: str = ME) -> list[list[Any]]:
    views = [api.inboxes[person][number] for number in api.ids(person)]
    return [[view.id, view.is_read, view.resolution.actor_name if view.resolution else None] for view in views]


async def shows_the_inbox(tab: Tab, api: InboxApi, within: float = 15.0) -> None:
    async def same() -> bool:
        shown, unread = await tab.evaluate(f"[{SHOWN}, inbox.unread]")
        return bool(shown == inbox_of(api) and unread == api.unread(ME))

    try:
        await eventually(same, within=within, every=0.05)
    except AssertionError:
        assert await tab.evaluate(SHOWN) == inbox_of(api)
        assert await tab.evaluate("inbox.unread") == api.unread(ME)
        raise
    assert tab.page_errors == []


async def test_stored_and_live_notifications_are_one_list(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    for _ in range(3):
        api.add(ME)
    tab = await open_inbox(chromium, gateway.http_url, api)
    await shows_the_inbox(tab, api)
    frames = api.add(ME)
    await gateway.publish(*frames, *frames)
    await gateway.publish(*frames)
    await shows_the_inbox(tab, api)
    view = api.inboxes[ME][api.ids(ME)[0]]
    # A change may arrive before its notification.
    late = api.add(ME)
    await gateway.publish(*api.resolve(api.inboxes[ME][api.ids(ME)[0]], 51, "CONFIRMED"))
    await gateway.publish(*late, *api.mark_read(view, 51))
    await shows_the_inbox(tab, api)


async def test_the_type_declarations_name_what_the_client_has(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    async with httpx.AsyncClient(base_url=gateway.http_url) as http:
        types = (await http.get("/tablebell.d.ts")).text
    declared = types[types.index("export class Inbox") :]
    names = set(re.findall(r"^  (?:readonly )?(\w+)[:(]", declared, re.MULTILINE)) - {"constructor"}
    tab = await open_inbox(chromium, gateway.http_url, api)
    public = "[...Object.getOwnPropertyNames(Object.getPrototypeOf(inbox)), ...Object.keys(inbox)]"
    assert set(await tab.evaluate(public)) - {"constructor"} == names


async def test_after_a_gateway_restart_the_page_catches_up(
    amqp_url: SecretStr, broker: Broker, api: InboxApi, chromium: Chromium
) -> None:
    port = free_port()
    async with running_gateway(amqp_url, broker, port=port) as gateway:
        api.add(ME)
        tab = await open_inbox(chromium, gateway.http_url, api)
        await shows_the_inbox(tab, api)
    await tab.wait_for("inbox.state === 'offline' || inbox.state === 'connecting'")
    for _ in range(3):
        api.add(ME)
    api.resolve(api.inboxes[ME][api.ids(ME)[-1]], 51, "REJECTED")
    async with running_gateway(amqp_url, broker, port=port) as gateway:
        await tab.wait_for("inbox.state === 'live'", within=20)
        await shows_the_inbox(tab, api)
        await gateway.publish(*api.add(ME))
        await shows_the_inbox(tab, api)
        await tab.evaluate("inbox.stop()")


async def test_after_a_sleep_the_page_catches_up(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    tab = await open_inbox(chromium, gateway.http_url, api)
    api.add(ME)  # the frame is lost
    await tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await shows_the_inbox(tab, api)
    api.add(ME)
    await tab.evaluate("dispatchEvent(new Event('online'))")
    await shows_the_inbox(tab, api)
    assert await tab.evaluate("states.join()") == "live"


async def test_after_a_network_outage_the_page_catches_up(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    tab = await open_inbox(chromium, gateway.http_url, api)
    await tab.set_offline(offline=True)
    await tab.wait_for("inbox.state !== 'live'", within=20)
    api.add(ME)
    await tab.set_offline(offline=False)
    await tab.wait_for("inbox.state === 'live'", within=20)
    await shows_the_inbox(tab, api)


async def test_during_a_rabbitmq_outage_the_page_is_delayed_and_then_catches_up(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, servers: Servers
) -> None:
    tab = await open_inbox(chromium, gateway.http_url, api)
    api.add(ME)
    await close_broker_connection(servers, gateway.settings.amqp_url)
    await tab.wait_for("states.includes('delayed')", within=20)
    await tab.wait_for("inbox.state === 'live'", within=20)
    await shows_the_inbox(tab, api)


async def test_the_token_is_renewed_on_the_open_connection(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    # Each API request takes a token too. All of these but the last are short-lived.
    tab = await open_inbox(
        chromium, gateway.http_url, api, *[token(ME, seconds=3, jti=str(n)) for n in range(3)], token(ME)
    )
    await asyncio.sleep(4)
    await gateway.publish(*api.add(ME))
    await shows_the_inbox(tab, api)
    assert await tab.evaluate("states.join()") == "live"


async def test_a_rejected_token_is_replaced_and_the_page_catches_up(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.add(ME)
    tab = await open_inbox(chromium, gateway.http_url, api, token(ME, seconds=-100), token(ME))
    await shows_the_inbox(tab, api)
    assert {"refused": True} in await tab.evaluate("asked")


async def test_without_a_valid_token_the_page_is_signed_out(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    tab = await chromium.open(f"{gateway.http_url}/health/live")
    await tab.evaluate(START % (300_000, json.dumps([token(ME, seconds=-100)]), api.url))
    await tab.wait_for("inbox.state === 'signed-out'")


async def test_tabs_stay_in_sync(gateway: RunningGateway, api: InboxApi, chromium: Chromium) -> None:
    for _ in range(4):
        api.add(ME)
    first = await open_inbox(chromium, gateway.http_url, api)
    second = await open_inbox(chromium, gateway.http_url, api, beside=first)
    elsewhere = await open_inbox(chromium, gateway.http_url, api)
    newest = api.ids(ME)[0]
    await first.wait_for("inbox.items.length === 4")
    await first.evaluate(f"inbox.read({newest})")
    for tab in (first, second, elsewhere):
        await shows_the_inbox(tab, api)
    await second.wait_for("inbox.unread === 3")
    await second.evaluate("inbox.readAll()")
    for tab in (first, second, elsewhere):
        await shows_the_inbox(tab, api)
    assert api.unread(ME) == 0


async def test_the_unread_count_includes_notifications_that_are_not_loaded(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    for _ in range(130):
        api.add(ME)
    tab = await open_inbox(chromium, gateway.http_url, api)
    await tab.wait_for("inbox.items.length === 50 && inbox.unread === 130")
    oldest = api.inboxes[ME][api.ids(ME)[-1]]
    await gateway.publish(*api.mark_read(oldest, 51))
    await tab.wait_for("inbox.unread === 129")
    await gateway.publish(*api.add(ME))
    await tab.wait_for("inbox.items.length === 51 && inbox.unread === 130")
    assert await tab.evaluate("inbox.more()") is True
    assert await tab.evaluate("inbox.more()") is False
    await shows_the_inbox(tab, api)


@pytest.mark.parametrize(("before", "lost", "after"), [(60, 1, 0), (60, 1, 70), (60, 120, 0), (20, 90, 60)])
async def test_the_audit_finds_lost_frames_however_many_notifications_came_meanwhile(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, before: int, lost: int, after: int
) -> None:
    for _ in range(before):
        api.add(ME)
    tab = await open_inbox(chromium, gateway.http_url, api, audit_every=1_500)
    shown = min(before, 50)
    await tab.wait_for(f"inbox.items.length === {shown} && inbox.unread === {before}")
    handled = api.inboxes[ME][api.ids(ME)[shown - 1]]
    for _ in range(lost):
        api.add(ME)
    api.resolve(handled, 51, "CONFIRMED")
    for _ in range(after):
        await gateway.publish(*api.add(ME))

    async def has_no_gap() -> bool:
        items, unread = await tab.evaluate(f"[{SHOWN}, inbox.unread]")
        is_whole = len(items) >= shown + lost + after and items == inbox_of(api)[: len(items)]
        return is_whole and bool(unread == before + lost + after)

    await eventually(has_no_gap, within=20, every=0.2)


async def test_a_reading_is_bounded_and_leaves_no_gap_in_the_list(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    for _ in range(1_060):
        api.add(ME)
    tab = await open_inbox(chromium, gateway.http_url, api)
    await tab.evaluate("(async () => { while (await inbox.more()); })()")
    await shows_the_inbox(tab, api)
    # A reading takes 1,000 at most: what is older and was confirmed before stays.
    api.add(ME)
    await tab.evaluate("dispatchEvent(new Event('online'))")
    await shows_the_inbox(tab, api)
    # More came than a reading takes: the list ends where the reading ended.
    for _ in range(1_100):
        api.add(ME)
    await tab.evaluate("dispatchEvent(new Event('online'))")
    await tab.wait_for("inbox.items.length === 1000 && inbox.unread === 2161 && inbox.hasMore", within=20)
    assert await tab.evaluate(SHOWN) == inbox_of(api)[:1_000]
    assert await tab.evaluate("(async () => { while (await inbox.more()); })()") is None
    await shows_the_inbox(tab, api)


async def test_after_many_failures_the_page_shows_exactly_the_inbox(
    amqp_url: SecretStr, broker: Broker, servers: Servers, api: InboxApi, chromium: Chromium
) -> None:
    """Lost, repeated and late frames, decisions, a gateway restart and a broken RabbitMQ connection together."""
    rng, port = random.Random(7), free_port()
    async with running_gateway(amqp_url, broker, port=port) as gateway:
        tab = await open_inbox(chromium, gateway.http_url, api)

        async def publish_events(count: int) -> None:
            late = []
            for _ in range(count):
                frames = api.add(ME, "RESTAURANT_USER:51")
                if rng.random() < 0.5:
                    view = api.inboxes[ME][rng.choice(api.ids(ME))]
                    change = api.resolve(view, 51, "CONFIRMED") if view.resolution is None else api.mark_read(view, 51)
                    frames = [*change, *frames]
                if rng.random() < 0.3:
                    late += frames
                else:
                    await publish(broker, frames * rng.choice([1, 1, 2]))
            await publish(broker, late)

        await publish_events(15)
    await publish_events(5)  # no gateway is running
    async with running_gateway(amqp_url, broker, port=port):
        await publish_events(10)
        await close_broker_connection(servers, amqp_url)
        await publish_events(10)
        await tab.wait_for("inbox.state === 'live'", within=20)
        await shows_the_inbox(tab, api)
        await tab.evaluate("inbox.stop()")


async def close_broker_connection(servers: Servers, amqp_url: SecretStr) -> None:
    """Make the broker close the gateway's connection."""
    vhost = urlsplit(amqp_url.get_secret_value()).path[1:]
    async with httpx.AsyncClient(base_url=servers.management_url, timeout=10) as http:

        async def connections() -> list[str]:
            listed = (await http.get(f"/api/vhosts/{vhost}/connections")).json()
            return [each["name"] for each in listed if each.get("user_provided_name") == "ws-gateway"]

        for name in await eventually(connections, within=15, every=0.2):
            await http.delete(f"/api/connections/{quote(name, safe='')}")
