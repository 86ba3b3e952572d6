"""The verdict: the database against what was seen from outside, by who asked, by the providers and by the browsers.

Each comparison gives a finding in the same shape as those of the audit, which looks at the database alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from chaos import store
from chaos.api_client import ApiClient
from chaos.clients import Client
from chaos.load import Load
from chaos.store import Connection, Row
from tablebell_tools.audit.check import Check, Finding

CHANNELS = ("EMAIL", "SMS", "PUSH", "SLACK")
KEY = re.compile(r"<?(\d+)-")  # the providers know a send by its id and the moment when it was made
GIVEN_UP = {"EXHAUSTED", "UNDELIVERABLE", "EXPIRED", "SKIPPED"}


def judge_requests(load: Load, reservations: Sequence[Row]) -> list[Finding]:
    """A customer and a time name one request, so they find its reservation even if no answer ever came."""
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


def judge_decisions(load: Load, events: Sequence[Row]) -> list[Finding]:
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
    """The channel and id of each send that arrived, in the order of arrival; id 0 for a message that bears none."""
    arrivals: list[tuple[str, int]] = []
    async with httpx.AsyncClient(base_url=sandbox_url, timeout=30, trust_env=False) as sandbox:
        for channel in CHANNELS:
            keys = (await sandbox.get("/api/keys", params={"channel": channel})).raise_for_status().json()
            arrivals += [(channel, int(found[1]) if (found := KEY.match(key)) else 0) for key in keys]
    return arrivals


def judge_order(sends: Sequence[Row], arrivals: Sequence[tuple[str, int]]) -> Finding:
    """At each provider, what a person gets about a reservation never goes back in version."""
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
    return _finding("told in order at each provider", len(arrivals), late)


def judge_deliveries(sends: Sequence[Row], arrivals: Sequence[tuple[str, int]]) -> list[Finding]:
    """What a row says was taken has arrived, and what arrived more than once has that many calls to explain it."""
    copies = Counter(arrivals)
    rows = {(row["channel_type"], row["id"]): row for row in sends}
    sent = [row for row in sends if row["is_sent"]]
    missing = [row for row in sent if not copies[row["channel_type"], row["id"]]]
    repeated = {key: count for key, count in copies.items() if count > 1 and key in rows}
    unexplained = [key for key, count in repeated.items() if count > _calls(rows[key])]
    given_up = [row for row in sends if row["outcome"] in GIVEN_UP]
    extra = sum(repeated.values()) - len(repeated)
    why = Counter(_why(rows[key]) for key in repeated)
    overtaken = [key for key in copies if key in rows and rows[key]["outcome"] == "WITHDRAWN"]
    return [
        judge_order(sends, arrivals),
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
            Check("overtaken", "withdrawn during its call", (), is_note=True),
            len(copies),
            len(overtaken),
            [f"send {identity}" for _, identity in overtaken[:3]],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a person was told, by the API and by the database."""

    client: Client
    shown: frozenset[int]
    stored: Mapping[int, bool]

    @property
    def agrees(self) -> bool:
        """The browser holds exactly what there is, handled where it was handled."""
        return self.client.held == self.stored

    def differences(self) -> list[str]:
        held, stored = self.client.held, self.stored
        missing, surplus = stored.keys() - held.keys(), held.keys() - stored.keys()
        stale = [identity for identity in held.keys() & stored.keys() if held[identity] != stored[identity]]
        named = {"not held": sorted(missing), "held, not stored": sorted(surplus), "handled?": sorted(stale)}
        return [f"{self.client.person} {what}: {ids[:3]}" for what, ids in named.items() if ids]


async def read_inboxes(connection: Connection, api: ApiClient, clients: Sequence[Client]) -> list[Inbox]:
    inboxes = []
    for client in clients:
        user_type, _, user_id = client.person.partition(":")
        shown = frozenset(item["id"] for item in await api.inbox(client.person))
        rows = await store.list_inbox(connection, user_type.upper(), int(user_id))
        inboxes.append(Inbox(client, shown, {row["id"]: row["is_resolved"] for row in rows}))
    return inboxes


def judge_browsers(inboxes: Sequence[Inbox]) -> list[Finding]:
    stored = sum(len(inbox.stored) for inbox in inboxes)
    hidden = [inbox.client.person for inbox in inboxes if inbox.shown != inbox.stored.keys()]
    strangers = [
        f"{inbox.client.person}: notification {identity}"
        for inbox in inboxes
        for identity in inbox.client.framed - inbox.stored.keys()
    ]
    frames = sum(inbox.client.frames for inbox in inboxes)
    return [
        _finding("inbox by the API = stored", stored, hidden),
        _finding("browser = its inbox", stored, (each for inbox in inboxes for each in inbox.differences())),
        _finding("no frame for somebody else", frames, strangers),
    ]


def judge_services(ended: Counter[str], services: int) -> Finding:
    return _finding("no service ended by itself", services, (f"{name} {count} times" for name, count in ended.items()))


def _calls(row: Row) -> int:
    return int(row["taken"] + row["unanswered"] + row["cut_short"])


def _why(row: Row) -> str:
    if row["cut_short"]:
        return "by a dispatcher killed in the middle of the call"
    return "after an answer that was lost" if row["unanswered"] else "by two holders of one lease"


def _finding(title: str, looked_at: int, wrong: Iterable[str]) -> Finding:
    examples = list(wrong)
    return Finding(Check(title, title, ()), looked_at, len(examples), examples[:3])
