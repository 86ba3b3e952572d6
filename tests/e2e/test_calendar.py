"""The calendar of a guest, from the mails that arrive: icalendar and vobject read them as a calendar program would."""

from collections.abc import Callable
from datetime import datetime
from email import message_from_string
from typing import Any, NamedTuple

import httpx
import icalendar
import pytest
import vobject
from chaos.api_client import ApiClient
from chaos.environment import ChaosEnvironment
from tests.e2e.harness import CUSTOMER, STAFF, ReservationHarness

from tablebell.testing import eventually

# The first test of a session starts the whole system.
pytestmark = pytest.mark.timeout(120)


class Entry(NamedTuple):
    method: str
    uid: str
    sequence: int
    start: datetime


def read_icalendar(text: str) -> Entry:
    calendar: Any = icalendar.Calendar.from_ical(text)
    (event,) = calendar.walk("VEVENT")
    return Entry(str(calendar["METHOD"]), str(event["UID"]), int(event["SEQUENCE"]), event["DTSTART"].dt)


def read_vobject(text: str) -> Entry:
    calendar: Any = vobject.readOne(text)
    event = calendar.vevent
    return Entry(calendar.method.value, event.uid.value, int(event.sequence.value), event.dtstart.value)


def calendars(mails: list[dict[str, Any]], read: Callable[[str], Entry]) -> list[dict[str, Entry]]:
    """The calendar after each mail with an entry."""
    states: list[dict[str, Entry]] = []
    entries: dict[str, Entry] = {}
    for mail in mails:
        for part in message_from_string(mail["raw"]).walk():
            if part.get_content_type() == "text/calendar":
                payload = part.get_payload(decode=True)
                assert isinstance(payload, bytes)
                received = read(payload.decode())
                assert received.sequence >= (entries[received.uid].sequence if received.uid in entries else 0)
                entries = {uid: entry for uid, entry in entries.items() if uid != received.uid}
                if received.method == "REQUEST":
                    entries[received.uid] = received
                states.append(entries)
    return states


async def test_request_accept_change_accept_cancel_leaves_no_entry_and_never_two(
    environment: ChaosEnvironment, table: ReservationHarness, api: ApiClient
) -> None:
    reservation = await table.ask()
    uid = f"reservation-{reservation}@"

    async def mails(number: int) -> list[dict[str, Any]]:
        """The mails to the guest about this reservation, the oldest first; empty until there are enough."""
        ids = [
            send["id"]
            for event_type in ("REQUESTED", "ACCEPTED", "CHANGED", "CANCELLED")
            for send in await table.sends(reservation, f"RESERVATION_{event_type}")
            if send["user_type"] == "CUSTOMER" and send["channel_type"] == "EMAIL"
        ]
        async with httpx.AsyncClient(base_url=environment.sandbox_url, trust_env=False) as sandbox:
            query = {"channel": "EMAIL", "to": "anna.bianchi", "limit": "100"}
            found = (await sandbox.get("/api/messages", params=query)).json()
        own = [mail for mail in found if any(mail["key"].startswith(f"<{identity}-") for identity in ids)]
        return sorted(own, key=lambda mail: mail["received_at_epoch"]) if len(own) >= number else []

    async def act(number: int, person: str, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        answer = await api.call(person, method, path, body)
        assert answer.status_code == 200, answer.text
        await eventually(lambda: mails(number), within=20, every=0.2)

    decide, own = f"/restaurant/reservation/{reservation}", f"/customer/reservation/{reservation}"
    await eventually(lambda: mails(1), within=20, every=0.2)
    await act(2, STAFF[0], "POST", f"{decide}/accept")
    await act(3, CUSTOMER, "PATCH", own, {"partySize": 6})
    await act(4, STAFF[1], "POST", f"{decide}/accept")
    await act(5, CUSTOMER, "POST", f"{own}/cancel")

    arrived = await mails(5)
    assert {mail["headers"]["From"].partition(" <")[0] for mail in arrived} == {"Trattoria del Porto"}
    for read in (read_icalendar, read_vobject):
        states = calendars(arrived, read)
        assert [len(entries) for entries in states] == [1, 1, 1, 0], "nothing for the request"
        assert all(name.startswith(uid) for entries in states for name in entries)
