"""Every text in every language, and hostile user input in it."""

import re
from datetime import UTC, datetime
from string import Formatter

import pytest

from notification_fanout.contact import PHONE_LENGTH, RestaurantContact, contact_reason
from notification_fanout.escaping import SEPTETS, plain
from notification_fanout.language import CODES, language_of, languages
from tablebell.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.messages import Message, PushMessage, SlackMessage, SmsMessage
from tablebell.people import DURABLE_CHANNELS, Audience, Channel

from .samples import CALLED_OFF, REACHABLE, renderer, text

COMBINATIONS = [
    (event_type, audience, code)
    for event_type, audiences in [*AUDIENCES.items(), (CALLED_OFF, tuple(Audience))]
    for audience in audiences
    for code in CODES
]
COMBINATIONS_BY_CHANNEL = [(*combination, channel) for combination in COMBINATIONS for channel in DURABLE_CHANNELS]
LONGEST = "Maria Wilhelmina Annunziata Ñandú de la Concepción y Todos los Santos " * 4
HOSTILE = (
    "Eve\r\nBcc: all@evil.example\x00\u2028\u202e\u200b",
    "<script>alert(1)</script><a href=x>&lt;b&gt;",
    "<https://evil.example|here> <!channel> @here :bomb:",
    "*big* _it_ ~no~ `rm` > quote",
    "https://evil.example/x www.evil.example evil.example..",
    "evil\u3002example evil\uff0eexample HTTPS\uff1a//evil",
    "javascript:alert(1) tel:+39899 mailto:a@b",
    "{recipient} {0} {when.year} %s ${x} {{7*7}}",
)
LINK = re.compile("[a-z]+:[\\w/+]|www\\.\\S|\\w[.\u3002\uff0e]+\\w|@\\w", re.IGNORECASE)


def strings(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [each for one in value.values() for each in strings(one)]
        case list() | tuple():
            return [each for one in value for each in strings(one)]
        case _:
            return []


def sms(message: Message) -> str:
    assert isinstance(message, SmsMessage)
    return message.text


@pytest.mark.parametrize(("event_type", "audience", "code", "channel"), COMBINATIONS_BY_CHANNEL)
def test_every_text_is_complete_in_every_language_and_for_every_channel(
    event_type: str, audience: Audience, code: str, channel: Channel
) -> None:
    message = renderer(event_type, audience, code).message(channel, "Giulia", {})
    texts = strings(message.model_dump(exclude_none=True))
    assert texts
    for one in texts:
        assert one.strip()
        assert not re.search(r"[{}]|None", one)


@pytest.mark.parametrize("contact", [REACHABLE, RestaurantContact(phone="9" * PHONE_LENGTH), RestaurantContact()])
@pytest.mark.parametrize(("event_type", "audience", "code"), COMBINATIONS)
def test_an_sms_fits_into_160_gsm_characters_even_with_the_longest_names(
    event_type: str, audience: Audience, code: str, contact: RestaurantContact
) -> None:
    shown = sms(renderer(event_type, audience, code, LONGEST, contact=contact).message(Channel.SMS, LONGEST, {}))
    assert len(shown) <= 160
    assert set(shown) <= SEPTETS
    cause = EventType.RESERVATION_CANCELLED if event_type == CALLED_OFF else EventType(event_type)
    reason = contact_reason(cause, audience)
    says_where_to_call = reason is not None and languages()[code].contact[reason].sms is not None
    assert shown.endswith(contact.phone or "no number") == (says_where_to_call and contact.phone is not None)


@pytest.mark.parametrize("user_input", HOSTILE)
@pytest.mark.parametrize(("event_type", "audience", "code"), COMBINATIONS)
def test_user_input_never_becomes_a_header_markup_or_a_link(
    event_type: str, audience: Audience, code: str, user_input: str
) -> None:
    contact = RestaurantContact.of(address=user_input, phone=None, sender_name=user_input, reply_to=user_input)
    rendered = renderer(event_type, audience, code, user_input, contact=contact)
    stored = text(event_type, audience, code, user_input)
    email = rendered.message(Channel.EMAIL, user_input, {}).model_dump(exclude={"reply_to", "calendar"})
    for one_line in (stored.title, stored.body, *strings(email)):
        assert one_line.isprintable()
        assert not LINK.search(one_line), LINK.search(one_line)

    short = sms(rendered.message(Channel.SMS, user_input, {}))
    assert short.isprintable()
    assert not LINK.search(short)

    push = rendered.message(Channel.PUSH, user_input, {})
    assert isinstance(push, PushMessage)
    assert push.title.isprintable()

    slack = rendered.message(Channel.SLACK, user_input, {})
    assert isinstance(slack, SlackMessage)
    assert slack.text.count("*") == 2  # around the title
    assert not re.search(r"[<>_~`]|:\w+:", slack.text)
    assert not LINK.search(slack.text)


@pytest.mark.parametrize("code", CODES)
def test_the_languages_have_the_same_texts_with_the_same_placeholders(code: str) -> None:
    italian, language = languages()["it"], languages()[code]
    assert language.labels.keys() == italian.labels.keys()
    assert language.contact.keys() == italian.contact.keys()
    for key, template in language.templates.items():
        other = italian.templates[key]
        for ours, theirs in ((template.title, other.title), (template.body, other.body), (template.sms, other.sms)):
            assert placeholders(ours) == placeholders(theirs), key
        assert placeholders(template.mail) == set(), "the e-mail lists the facts"


@pytest.mark.parametrize("code", CODES)
def test_a_cancellation_by_the_restaurant_tells_the_guest_who_cancelled_and_why(code: str) -> None:
    called_off = text(CALLED_OFF, Audience.CUSTOMER, code, "Burst pipe")
    assert called_off.title.startswith("Da Burst pipe ")
    assert called_off.body.endswith(": Burst pipe")
    assert called_off.title != text(EventType.RESERVATION_CANCELLED, Audience.CUSTOMER, code, "Burst pipe").title
    mail = renderer(CALLED_OFF, Audience.CUSTOMER, code, "Burst pipe").message(Channel.EMAIL, "Anna", {})
    assert [languages()[code].labels["reason"], "Burst pipe"] in [list(fact) for fact in mail.model_dump()["facts"]]


def placeholders(template: str) -> set[str]:
    return {field for _, field, _, _ in Formatter().parse(template) if field}


def test_a_harmless_name_stays_unchanged() -> None:
    assert plain("Zoë O'Brien-Ñúñez", 60) == "Zoë O'Brien-Ñúñez"
    assert plain("  J.R.R.   Tolkien ", 60) == "J. R. R. Tolkien"
    assert plain("x" * 100, 10) == "x" * 9 + "…"


def test_an_sms_transliterates_accented_letters_but_keeps_other_scripts() -> None:
    requested, restaurant = EventType.RESERVATION_REQUESTED, Audience.RESTAURANT
    assert "Joao" in sms(renderer(requested, restaurant, "pt", "João Œrsted").message(Channel.SMS, "", {}))
    assert "山田太郎" in sms(renderer(requested, restaurant, "it", "山田太郎").message(Channel.SMS, "", {}))


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("it", "venerdì 20 novembre 2026 alle 20:30"),
        ("en", "Friday 20 November 2026 at 8:30 pm"),
        ("es-MX", "viernes 20 de noviembre de 2026 a las 20:30"),
        ("pt_BR", "sexta-feira, 20 de novembro de 2026, às 20:30"),
        ("fr", "venerdì 20 novembre 2026 alle 20:30"),
    ],
)
def test_a_time_is_in_the_zone_of_the_restaurant_and_the_format_of_the_recipient(locale: str, expected: str) -> None:
    slot = datetime(2026, 11, 20, 19, 30, tzinfo=UTC)
    assert language_of(locale).when(slot, "Europe/Rome") == expected


def test_the_same_instant_differs_by_time_zone() -> None:
    slot = datetime(2026, 7, 1, 23, 30, tzinfo=UTC)
    assert languages()["en"].when(slot, "Europe/Lisbon") == "Thursday 2 July 2026 at 12:30 am"
    assert languages()["it"].short(slot, "America/New_York") == "mer 1/7 19:30"


def test_a_time_between_one_and_two_takes_the_singular_preposition() -> None:
    slot = datetime(2026, 11, 21, 1, 15, tzinfo=UTC)
    texts = [languages()[code].when(slot, "UTC") for code in CODES]
    assert texts == [
        "sabato 21 novembre 2026 all\u20191:15",
        "Saturday 21 November 2026 at 1:15 am",
        "sábado 21 de noviembre de 2026 a la 1:15",
        "sábado, 21 de novembro de 2026, à 1:15",
    ]


def test_every_month_has_a_distinct_short_form() -> None:
    for code in CODES:
        months = {languages()[code].short(datetime(2027, month, 4, 20, tzinfo=UTC), "UTC") for month in range(1, 13)}
        assert len(months) == 12


def test_party_sizes_have_singular_and_plural() -> None:
    assert [languages()[code].party(1) for code in CODES] == ["1 persona", "1 person", "1 persona", "1 pessoa"]
    assert [languages()[code].party(2) for code in CODES] == ["2 persone", "2 people", "2 personas", "2 pessoas"]
    assert [languages()[code].party(1000) for code in CODES] == [
        "1000 persone",
        "1000 people",
        "1000 personas",
        "1000 pessoas",
    ]


def test_the_title_of_a_new_reservation_is_that_of_the_contract() -> None:
    title = text(EventType.RESERVATION_REQUESTED, Audience.RESTAURANT, "it").title
    assert title == "Nuova prenotazione ricevuta"
