"""Which messages change the guest's calendar."""

import pytest

from tablebell.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.messages import CalendarEntry, EmailMessage
from tablebell.people import Audience, Channel

from .samples import SLOT, renderer


def entry(event_type: EventType, audience: Audience, *, was_accepted: bool) -> CalendarEntry | None:
    message = renderer(event_type, audience, "en", was_accepted=was_accepted).message(Channel.EMAIL, "Anna", {})
    assert isinstance(message, EmailMessage)
    return message.calendar


@pytest.mark.parametrize(
    ("event_type", "method", "status", "hours"),
    [
        (EventType.RESERVATION_ACCEPTED, "REQUEST", "CONFIRMED", 0),
        (EventType.RESERVATION_CHANGED, "REQUEST", "TENTATIVE", 0),
        (EventType.RESERVATION_POSTPONED, "REQUEST", "TENTATIVE", 1),
        (EventType.RESERVATION_REJECTED, "CANCEL", "CANCELLED", 0),
        (EventType.RESERVATION_CANCELLED, "CANCEL", "CANCELLED", 0),
    ],
)
def test_after_an_acceptance_every_state_updates_or_deletes_the_entry(
    event_type: EventType, method: str, status: str, hours: int
) -> None:
    found = entry(event_type, Audience.CUSTOMER, was_accepted=True)
    assert found is not None
    assert (found.method, found.status) == (method, status)
    assert (found.uid, found.sequence) == ("reservation-17", 3)
    assert (found.start - SLOT).total_seconds() == hours * 3600
    assert found.end > found.start
    assert found.summary == "Da Anna Bianchi, 4 people"


@pytest.mark.parametrize("event_type", [event_type for event_type, audiences in AUDIENCES.items() if audiences])
def test_without_an_acceptance_only_the_acceptance_makes_an_entry(event_type: EventType) -> None:
    found = {
        audience: entry(event_type, audience, was_accepted=False) is not None for audience in AUDIENCES[event_type]
    }
    expected = event_type is EventType.RESERVATION_ACCEPTED
    assert found == {audience: expected and audience is Audience.CUSTOMER for audience in AUDIENCES[event_type]}
