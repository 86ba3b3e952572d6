"""The contract's example with real processes: HTTP in; mail, SMS, push, Slack and WebSocket out."""

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from chaos.api_client import ApiClient
from chaos.environment import ChaosEnvironment
from chaos.store import Connection
from tests.e2e.conftest import start_system
from tests.e2e.harness import CUSTOMER, EVERYONE, STAFF, ReservationHarness

from tablebell.testing import eventually
from tablebell_tools.audit.check import audit
from tablebell_tools.demo.sockets import Sockets, open_sockets

# The first test of a session starts the whole system.
pytestmark = pytest.mark.timeout(120)

ROWS_OF_STAFF = """
SELECT count(*)
  FROM event_notification AS en JOIN notification_restaurant AS n ON n.event_notification_id = en.id
 WHERE en.reservation_id = $1
"""
OUTBOX_ROWS_OF_STAFF = """
SELECT count(*)
  FROM event_notification AS en
  JOIN notification_restaurant AS n ON n.event_notification_id = en.id
  JOIN notification_outbox AS o ON o.notification_id = n.id AND o.notification_type = 'RESTAURANT'
 WHERE en.reservation_id = $1
"""


def notified(sockets: Sockets, reservation: int, event_type: str) -> set[str]:
    """The people who received a frame of the event."""
    return {
        received.person
        for received in sockets.received
        if received.content.get("reservationId") == reservation and received.content.get("eventType") == event_type
    }


async def test_one_reservation_reaches_every_person_on_every_channel(
    environment: ChaosEnvironment, table: ReservationHarness
) -> None:
    one, other = environment.gateway_urls
    async with (
        open_sockets(one, environment.tokens, EVERYONE[:4]) as here,
        open_sockets(other, environment.tokens, EVERYONE[4:]) as there,
    ):
        reservation = await table.ask()
        await eventually(lambda: table.is_sent(reservation, sends=17), within=20, every=0.1)

        assert await table.count(ROWS_OF_STAFF, reservation) == 3
        assert await table.count(OUTBOX_ROWS_OF_STAFF, reservation) == 3
        sends = await table.sends(reservation)
        assert sum(send["user_type"] == "RESTAURANT_USER" for send in sends) == 9
        (skipped,) = (send for send in sends if send["outcome"] != "SENT")
        assert (skipped["channel_type"], skipped["user_type"]) == ("SLACK", "ADMIN_USER"), "sent once per webhook"
        copies = await table.copies(reservation)
        assert copies.pop(skipped["id"]) == 0
        assert set(copies.values()) == {1}
        await eventually(
            lambda: (
                notified(here, reservation, "RESERVATION_REQUESTED")
                | notified(there, reservation, "RESERVATION_REQUESTED")
                == set(EVERYONE)
            )
        )
        frames = [received.content for received in (*here.received, *there.received)]
        assert {frame["reservationId"] for frame in frames if frame["type"] == "notification"} == {reservation}


async def test_one_of_two_racing_staff_wins_and_every_screen_shows_the_winner(
    environment: ChaosEnvironment, table: ReservationHarness, api: ApiClient
) -> None:
    async with open_sockets(environment.gateway_urls[1], environment.tokens, (CUSTOMER, *STAFF)) as sockets:
        reservation = await table.ask()
        await eventually(lambda: notified(sockets, reservation, "RESERVATION_REQUESTED") >= set(STAFF), within=20)
        requests = [await table.request_of(person, reservation) for person in STAFF[:2]]
        answers = await asyncio.gather(
            *(
                api.call(person, "POST", f"/notifications/{request['id']}/actions", {"actionType": action})
                for person, request, action in zip(STAFF, requests, ("CONFIRMED", "REJECTED"), strict=False)
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        winner = 50 if answers[0].status_code == 200 else 51
        (loser,) = (answer for answer in answers if answer.status_code == 409)
        assert loser.json()["handledBy"]["actorId"] == winner

        def shown() -> set[tuple[str, int]]:
            event = requests[0]["eventNotificationId"]
            return {
                (received.person, received.content["actorId"])
                for received in sockets.received
                if received.content["type"] == "resolved" and received.content["eventNotificationId"] == event
            }

        await eventually(lambda: shown() == {(person, winner) for person in STAFF}, within=20)
        decided = "RESERVATION_ACCEPTED" if winner == 50 else "RESERVATION_REJECTED"
        await eventually(lambda: CUSTOMER in notified(sockets, reservation, decided), within=20)
        for person in STAFF:
            assert (await table.request_of(person, reservation))["resolution"]["actorId"] == winner


async def test_nothing_is_lost_when_workers_are_killed(
    environment: ChaosEnvironment, table: ReservationHarness, connection: Connection
) -> None:
    reservations = [await table.ask() for _ in range(5)]
    workers = {"event-relay", "notification-fanout", "channel-dispatcher"}
    await asyncio.gather(*(each.kill() for each in environment.services if each.name in workers))
    reservations += [await table.ask() for _ in range(5)]
    await asyncio.to_thread(start_system)
    for reservation in reservations:
        await eventually(partial(table.is_sent, reservation, sends=17), within=40, every=0.2)
        copies = await table.copies(reservation)
        assert all(copies[send["id"]] >= 1 for send in await table.sends(reservation) if send["is_sent"])

    findings = await audit(connection, reach=timedelta(hours=1), settle=timedelta(0))
    assert [finding for finding in findings if finding.is_violation] == []
    checked = {finding.check.name: finding.checked for finding in findings}
    assert checked["event_people"] >= 7 * len(reservations)
    assert checked["channel_outcomes"] >= 17 * len(reservations)
