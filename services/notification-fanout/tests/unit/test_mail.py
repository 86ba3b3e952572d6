"""The parts of an e-mail: who it is from, what it lists, and how its reader can answer."""

import re

import pytest

from notification_fanout.contact import REASONS, RestaurantContact
from notification_fanout.language import CODES, languages
from tablebell.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.messages import EmailMessage
from tablebell.people import Audience, Channel

from .samples import REACHABLE, SLOT, renderer

EVENTS = [(event_type, audience) for event_type, audiences in AUDIENCES.items() for audience in audiences]
GUEST_EVENTS = [event_type for event_type, audience in EVENTS if audience is Audience.CUSTOMER]


def mail(event_type: EventType, audience: Audience, code: str = "en", **changes: object) -> EmailMessage:
    message = renderer(event_type, audience, code, **changes).message(Channel.EMAIL, "Giulia Ferri", {})  # type: ignore[arg-type]
    assert isinstance(message, EmailMessage)
    return message


def sentences(message: EmailMessage) -> str:
    return " ".join([message.subject, *message.paragraphs, message.contact or ""])


@pytest.mark.parametrize(("event_type", "audience"), EVENTS)
def test_a_mail_to_a_guest_comes_from_the_restaurant_and_any_other_from_tablebell(
    event_type: EventType, audience: Audience
) -> None:
    message = mail(event_type, audience)
    if audience is Audience.CUSTOMER:
        assert message.sender_name == message.letterhead.name == "Da Anna Bianchi"
        assert (message.letterhead.address, message.letterhead.phone) == (REACHABLE.address, REACHABLE.phone)
        assert message.reply_to == REACHABLE.reply_to
    else:
        assert (message.sender_name, message.reply_to, message.letterhead.phone) == (None, None, None)


def test_a_restaurant_can_have_a_sender_name_of_its_own() -> None:
    contact = RestaurantContact.of(address=None, phone=None, sender_name="Il Porto", reply_to=None)
    assert mail(EventType.RESERVATION_ACCEPTED, Audience.CUSTOMER, contact=contact).sender_name == "Il Porto"


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(("event_type", "audience"), EVENTS)
def test_the_facts_are_listed_once(event_type: EventType, audience: Audience, code: str) -> None:
    language, message = languages()[code], mail(event_type, audience, code)
    values = [value for _, value in message.facts]
    if event_type is EventType.RESERVATION_VISIT_ENDED:
        assert values == []
        return
    when = language.when(SLOT, "Europe/Rome")
    assert sum(value.lower() == when.lower() for value in values) == 1
    assert sum(value == language.party(4) for value in values) == 1
    assert sum(label in (language.labels["customer"], language.labels["name"]) for label, _ in message.facts) == 1
    assert "20" not in " ".join(message.paragraphs), "the sentences repeat no time"
    assert language.party(4) in message.preheader


@pytest.mark.parametrize("code", CODES)
def test_a_proposal_lists_the_proposed_time_first(code: str) -> None:
    language, message = languages()[code], mail(EventType.RESERVATION_POSTPONED, Audience.CUSTOMER, code)
    (first, time), (second, requested) = message.facts[:2]
    assert (first, second) == (language.labels["proposed"], language.labels["requested"])
    assert "21:30" in time or "9:30" in time
    assert "20:30" in requested or "8:30" in requested
    assert time in message.preheader


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("event_type", GUEST_EVENTS)
@pytest.mark.parametrize(
    "contact",
    [REACHABLE, RestaurantContact(phone="010 1"), RestaurantContact(reply_to="a@b.example"), RestaurantContact()],
)
def test_a_guest_is_asked_only_for_what_they_can_do(
    event_type: EventType, code: str, contact: RestaurantContact
) -> None:
    message = mail(event_type, Audience.CUSTOMER, code, contact=contact)
    told = sentences(message)
    reachable = contact != RestaurantContact()
    assert (message.contact is not None) == (event_type in REASONS and (reachable or needs_answer(event_type)))
    assert ("010" in told) == (contact.phone is not None and event_type in REASONS)
    mentions_reply = re.search(r"this email|questa email|este correo|este email", told) is not None
    assert mentions_reply == (contact.reply_to is not None and event_type in REASONS)
    assert "Tablebell" not in told


def needs_answer(event_type: EventType) -> bool:
    return event_type is EventType.RESERVATION_POSTPONED


@pytest.mark.parametrize(
    ("phone", "usable"),
    [
        ("+39 010 555 0110", True),
        ("", False),
        (None, False),
        ("call us", False),
        ("1" * 25, False),
        ("12\u202e34", True),
    ],
)
def test_only_a_plausible_number_is_shown(phone: str | None, usable: bool) -> None:
    contact = RestaurantContact.of(address=None, phone=phone, sender_name=None, reply_to=None)
    assert (contact.phone is not None) == usable
    assert contact.phone is None or contact.phone.isprintable()


@pytest.mark.parametrize(
    "reply_to", ["", "porto", "a@b", "a b@c.example", "a@b.example\r\nBcc: x@y.example", "é@b.example"]
)
def test_an_invalid_reply_address_is_not_promised(reply_to: str) -> None:
    assert RestaurantContact.of(address=None, phone=None, sender_name=None, reply_to=reply_to).reply_to is None


def test_only_the_restaurant_and_the_guest_see_the_note() -> None:
    for audience in Audience:
        message = mail(EventType.RESERVATION_REQUESTED, audience, name="no nuts")
        assert (("Note", "no nuts") in message.facts) == (audience in (Audience.RESTAURANT, Audience.CUSTOMER))


def test_a_recipient_without_a_name_gets_no_greeting() -> None:
    message = renderer(EventType.RESERVATION_REQUESTED, Audience.ADMIN, "en").message(Channel.EMAIL, " \u200b", {})
    assert isinstance(message, EmailMessage)
    assert message.greeting == ""


def test_a_stored_mail_is_short() -> None:
    longest = max(
        len(mail(event_type, audience, code).model_dump_json(exclude_defaults=True))
        for event_type, audience in EVENTS
        for code in CODES
    )
    assert longest < 1500
