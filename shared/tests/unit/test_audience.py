"""The rules of notification, written out. `make audit` uses the tables of the code, so a wrong table must fail here."""

import pytest

from tablebell.audience import AUDIENCES, channels_for, is_notified
from tablebell.events import Actor, EventType
from tablebell.people import DEFAULT_CHANNELS, DURABLE_CHANNELS, Audience, UserType

NOTIFIED = {
    "RESERVATION_REQUESTED": {"RESTAURANT", "CUSTOMER", "ADMIN", "AGENCY"},
    "RESERVATION_ACCEPTED": {"RESTAURANT", "CUSTOMER", "AGENCY"},
    "RESERVATION_REJECTED": {"CUSTOMER", "ADMIN", "AGENCY"},
    "RESERVATION_POSTPONED": {"CUSTOMER", "AGENCY"},
    "RESERVATION_CHANGED": {"RESTAURANT", "CUSTOMER", "AGENCY"},
    "RESERVATION_CANCELLED": {"RESTAURANT", "CUSTOMER", "ADMIN", "AGENCY"},
    "RESERVATION_REMINDER_DUE": {"CUSTOMER"},
    "RESERVATION_VISIT_ENDED": {"CUSTOMER"},
    "RESERVATION_ARRIVED": set(),
    "RESERVATION_NO_SHOW": set(),
    "RESERVATION_REOPENED": set(),
    "RESERVATION_DECIDED": set(),
    "RESERVATION_DECISION_UNDONE": {"RESTAURANT"},
    "NOTIFICATION_RESOLVED": set(),
    "NOTIFICATION_DISMISSED": set(),
    "NOTIFICATION_READ": set(),
}
CHANNELS = {
    "RESTAURANT_USER": {"EMAIL", "SMS", "PUSH"},
    "CUSTOMER": {"EMAIL", "SMS", "PUSH"},
    "ADMIN_USER": {"EMAIL", "SLACK"},
    "AGENCY_USER": {"EMAIL"},
}


def test_every_event_notifies_its_audiences() -> None:
    assert {str(event): {str(each) for each in audiences} for event, audiences in AUDIENCES.items()} == NOTIFIED


def test_staff_are_notified_of_an_acceptance_by_the_guest_only() -> None:
    told = {
        user_type
        for user_type in UserType
        if is_notified(
            EventType.RESERVATION_ACCEPTED, Audience.RESTAURANT, Actor(user_type=user_type, user_id=1, name="Somebody")
        )
    }
    assert told == {"CUSTOMER", "AGENCY_USER"}


def test_every_user_type_has_its_default_channels() -> None:
    assert {str(user): {str(each) for each in channels} for user, channels in DEFAULT_CHANNELS.items()} == CHANNELS


@pytest.mark.parametrize("event_type", EventType)
def test_only_thanks_and_undone_decisions_are_limited_to_a_channel(event_type: EventType) -> None:
    limited = {"RESERVATION_VISIT_ENDED": {"EMAIL"}, "RESERVATION_DECISION_UNDONE": {"PUSH"}}
    durable = {channel for channel in channels_for(event_type) if channel in DURABLE_CHANNELS}
    assert durable == limited.get(event_type, set(DURABLE_CHANNELS))
