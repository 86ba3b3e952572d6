"""Compares the database with the observations from outside: the load, the providers and the browsers.

The findings have the form of the audit's, which reads only the database.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from chaos import store
from chaos.api_client import ApiClient
from chaos.browsers import Browser
from chaos.load import Load
from chaos.store import Connection, Row
from tablebell.people import DURABLE_CHANNELS
from tablebell_tools.audit.check import Check, Finding

KEY = re.compile(r"<?(\d+)-")  # a provider key starts with the id of the send
GIVEN_UP = {"EXHAUSTED", "UNDELIVERABLE", "EXPIRED", "SKIPPED"}


def check_requests(load: Load, reservations: Sequence[Row]) -> list[Finding]:
    """Customer and time identify a request, so its reservation is found even if the answer was lost."""
    by_request: dict[tuple[int, Any], list[int]] = {}
    for row in reservations:
        by_request.setdefault((row["customer_id"], row["slot_time"]), []).append(row["id"])
    answered = [ask for ask in load.asks if ask.reservation is not None]
    lost = [ask for ask in answered if ask.reservation not in by_request.get((ask.customer, ask.slot), ())]
    asked = {(ask.customer, ask.slot) for ask in load.asks}
    surplus = [ids for request, ids in by_request.items() if request not in asked or len(ids) > 1]
    refused = [ask for ask in load.asks if ask.refusal is not None]
    return [
        _finding("request → answered", len(load.asks), (f"{ask.key}: {ask.refusal}" for ask in refused)),
        _finding("answered → its reservation", len(answered), (f"reservation {ask.reservation}" for ask in lost)),
        _finding("reservation → one request", len(reservations), (f"reservations {ids}" for ids in surplus)),
    ]


def check_decisions(load: Load, events: Sequence[Row]) -> list[Finding]:
    known = {(row["aggregate_id"], row["aggregate_version"], row["event_type"]) for row in events}
    lost = [one for one in load.decisions if (one.reservation, one.version, one.event_type) not in known]
    winners = Counter((one.reservation, one.version) for one in load.decisions)
    twice = [version for version, count in winners.items() if count > 1]
    return [
        _finding("answered decision → its event", len(load.decisions), (str(one) for one in lost)),
        _finding("one winner of each race", len(winners), (f"reservation {one[0]} version {one[1]}" for one in twice)),
        _finding("decision → answered", len(load.decisions) + load.lost_races, load.problems.elements()),
    ]


async def received_by_providers(sandbox_url: str) -> list[tuple[str, int]]:
    """Channel and id of each received send, in the order of arrival; id 0 for a message without a key."""
    arrivals: list[tuple[str, int]] = []
    async with httpx.AsyncClient(base_url=sandbox_url, timeout=30, trust_env=False) as sandbox:
        for channel in DURABLE_CHANNELS:
            keys = (await sandbox.get("/api/keys", params={"channel": channel})).raise_for_status().json()
            arrivals += [(channel, int(found[1]) if (found := KEY.match(key)) else 0) for key in keys]
    return arrivals


def check_order(sends: Sequence[Row], arrivals: Sequence[tuple[str, int]]) -> Finding:
    """At each provider, a person's messages about a reservation arrive in the order of its versions."""
    rows = {(row["channel_type"], row["id"]): row for row in sends}
    latest: dict[tuple[Any, ...], tuple[int, int]] = {}
    late: list[str] = []
    for key in arrivals:
        row = rows.get(key)
        if row is None or row["reservation_id"] is None:
            continue
        person = (row["channel_type"], row["user_type"], row["user_id"], row["reservation_id"])
        place = (row["aggregate_version"], row["id"])
        if place < latest.get(person, place):
            late.append(f"send {row['id']} after send {latest[person][1]}")
        latest[person] = max(place, latest.get(person, place))
    return _finding("in order at each provider", len(arrivals), late)


def check_deliveries(sends: Sequence[Row], arrivals: Sequence[tuple[str, int]]) -> list[Finding]:
    """Every sent row has arrived at its provider, and every copy has its own call."""
    copies = Counter(arrivals)
    rows = {(row["channel_type"], row["id"]): row for row in sends}
    sent = [row for row in sends if row["is_sent"]]
    missing = [row for row in sent if not copies[row["channel_type"], row["id"]]]
    repeated = {key: count for key, count in copies.items() if count > 1 and key in rows}
    unexplained = [key for key, count in repeated.items() if count > _calls(rows[key])]
    given_up = [row for row in sends if row["outcome"] in GIVEN_UP]
    extra = sum(repeated.values()) - len(repeated)
    why = Counter(_why(rows[key]) for key in repeated)
    late = [key for key in copies if key in rows and rows[key]["outcome"] == "WITHDRAWN"]
    return [
        check_order(sends, arrivals),
        _finding("sent → at its provider", len(sent), (f"send {row['id']}" for row in missing)),
        _finding("at a provider → its send", copies.total(), (f"{key}" for key in copies if key not in rows)),
        _finding("copies → a call for each", copies.total(), (f"send {identity}" for _, identity in unexplained)),
        _finding("no send given up", len(sends), (f"send {row['id']}: {row['outcome']}" for row in given_up)),
        Finding(
            Check("duplicates", "delivered once more", (), is_note=True),
            copies.total(),
            extra,
            [f"{count} {reason}" for reason, count in why.items()],
        ),
        Finding(
            Check("late", "withdrawn during its call", (), is_note=True),
            len(copies),
            len(late),
            [f"send {identity}" for _, identity in late[:3]],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Inbox:
    """A person's notifications in the browser, the API and the database."""

    browser: Browser
    shown: frozenset[int]
    stored: Mapping[int, bool]

    @property
    def matches(self) -> bool:
        """Whether the browser has exactly the stored notifications, in the same state."""
        return self.browser.notifications == self.stored

    def differences(self) -> list[str]:
        held, stored = self.browser.notifications, self.stored
        missing, surplus = stored.keys() - held.keys(), held.keys() - stored.keys()
        stale = [identity for identity in held.keys() & stored.keys() if held[identity] != stored[identity]]
        named = {"missing": sorted(missing), "surplus": sorted(surplus), "wrong state": sorted(stale)}
        return [f"{self.browser.person} {what}: {ids[:3]}" for what, ids in named.items() if ids]


async def read_inboxes(connection: Connection, api: ApiClient, browsers: Sequence[Browser]) -> list[Inbox]:
    inboxes = []
    for browser in browsers:
        user_type, _, user_id = browser.person.partition(":")
        shown = frozenset(item["id"] for item in await api.inbox(browser.person))
        rows = await store.list_inbox(connection, user_type.upper(), int(user_id))
        inboxes.append(Inbox(browser, shown, {row["id"]: row["is_resolved"] for row in rows}))
    return inboxes


def check_browsers(inboxes: Sequence[Inbox]) -> list[Finding]:
    stored = sum(len(inbox.stored) for inbox in inboxes)
    hidden = [inbox.browser.person for inbox in inboxes if inbox.shown != inbox.stored.keys()]
    strangers = [
        f"{inbox.browser.person}: notification {identity}"
        for inbox in inboxes
        for identity in inbox.browser.framed - inbox.stored.keys()
    ]
    frames = sum(inbox.browser.frames for inbox in inboxes)
    return [
        _finding("inbox by the API = stored", stored, hidden),
        _finding("browser = its inbox", stored, (each for inbox in inboxes for each in inbox.differences())),
        _finding("no frame for somebody else", frames, strangers),
    ]


def check_services(exited: Counter[str], services: int) -> Finding:
    return _finding(
        "no service exited by itself", services, (f"{name} {count} times" for name, count in exited.items())
    )


def _calls(row: Row) -> int:
    return int(row["taken"] + row["unanswered"] + row["cut_short"])


def _why(row: Row) -> str:
    if row["cut_short"]:
        return "by a dispatcher killed during the call"
    return "after a lost answer" if row["unanswered"] else "by two holders of one lease"


def _finding(title: str, checked: int, wrong: Iterable[str]) -> Finding:
    examples = list(wrong)
    return Finding(Check(title, title, ()), checked, len(examples), examples[:3])
