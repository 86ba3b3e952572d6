"""Every text in every language, and hostile user input in it."""

import re
from datetime import UTC, datetime

import pytest

from notification_fanout.escaping import SEPTETS, plain
from notification_fanout.language import CODES, language_of, languages
from notification_fanout.preview import main as preview
from notification_fanout.preview import sample
from notification_fanout.render import NotificationRenderer
from tablebell.audience import AUDIENCES
from tablebell.events import EventType
from tablebell.messages import EmailMessage, PushMessage, SlackMessage, SmsMessage
from tablebell.people import DURABLE_CHANNELS, Audience, Channel

COMBINATIONS = [
    (event_type, audience, code)
    for event_type, audiences in AUDIENCES.items()
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


def render(event_type: EventType, audience: Audience, code: str, name: str = "Anna Bianchi") -> NotificationRenderer:
    return NotificationRenderer(event_type, audience, languages()[code], sample(name, f"Da {name}", name))


@pytest.mark.parametrize(("event_type", "audience", "code", "channel"), COMBINATIONS_BY_CHANNEL)
def test_every_text_is_complete_in_every_language_and_for_every_channel(
    event_type: EventType, audience: Audience, code: str, channel: Channel
) -> None:
    message = render(event_type, audience, code).message(channel, "Giulia", {})
    texts = [value for value in message.model_dump().values() if isinstance(value, str)]
    assert texts
    for text in texts:
        assert text.strip()
        assert not re.search(r"[{}]|None", text)


@pytest.mark.parametrize(("event_type", "audience", "code"), COMBINATIONS)
def test_an_sms_fits_into_160_gsm_characters_even_with_the_longest_names(
    event_type: EventType, audience: Audience, code: str
) -> None:
    message = render(event_type, audience, code, LONGEST).message(Channel.SMS, LONGEST, {})
    assert isinstance(message, SmsMessage)
    assert len(message.text) <= 160
    assert set(message.text) <= SEPTETS


@pytest.mark.parametrize("user_input", HOSTILE)
@pytest.mark.parametrize(("event_type", "audience", "code"), COMBINATIONS)
def test_user_input_never_becomes_a_header_markup_or_a_link(
    event_type: EventType, audience: Audience, code: str, user_input: str
) -> None:
    renderer = render(event_type, audience, code, user_input)
    email = renderer.message(Channel.EMAIL, user_input, {})
    assert isinstance(email, EmailMessage)
    for one_line in (renderer.text.title, renderer.text.body, email.subject):
        assert one_line.isprintable()
    for text in (renderer.text.title, renderer.text.body, email.text):
        assert not LINK.search(text), LINK.search(text)
    # Only the tags of the layout.
    assert set(re.findall(r"</?(\w+)", email.html)) <= {
        "html", "head", "meta", "title", "body", "h1", "p", "table", "tr", "th", "td",
    }  # fmt: skip
    assert not LINK.search(re.sub(r"<[^>]*>", " ", email.html))

    sms = renderer.message(Channel.SMS, user_input, {})
    assert isinstance(sms, SmsMessage)
    assert sms.text.isprintable()
    assert not LINK.search(sms.text)

    push = renderer.message(Channel.PUSH, user_input, {})
    assert isinstance(push, PushMessage)
    assert push.title.isprintable()

    slack = renderer.message(Channel.SLACK, user_input, {})
    assert isinstance(slack, SlackMessage)
    assert slack.text.count("*") == 2  # around the title
    assert not re.search(r"[<>_~`]|:\w+:", slack.text)
    assert not LINK.search(slack.text)


def test_a_harmless_name_stays_unchanged() -> None:
    assert plain("Zoë O'Brien-Ñúñez", 60) == "Zoë O'Brien-Ñúñez"
    assert plain("  J.R.R.   Tolkien ", 60) == "J. R. R. Tolkien"
    assert plain("x" * 100, 10) == "x" * 9 + "…"


def test_an_sms_transliterates_accented_letters_but_keeps_other_scripts() -> None:
    text = render(EventType.RESERVATION_REQUESTED, Audience.RESTAURANT, "pt", "João Œrsted").message(
        Channel.SMS, "", {}
    )
    assert isinstance(text, SmsMessage)
    assert "Joao" in text.text
    japanese = render(EventType.RESERVATION_REQUESTED, Audience.RESTAURANT, "it", "山田太郎").message(
        Channel.SMS, "", {}
    )
    assert isinstance(japanese, SmsMessage)
    assert "山田太郎" in japanese.text


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


@pytest.mark.parametrize("code", CODES)
def test_the_email_of_a_proposal_lists_the_proposed_time(code: str) -> None:
    language = languages()[code]
    data = sample("Anna Bianchi", "Da Anna", None)
    renderer = NotificationRenderer(EventType.RESERVATION_POSTPONED, Audience.CUSTOMER, language, data)
    email = renderer.message(Channel.EMAIL, "Anna", {})
    assert isinstance(email, EmailMessage)
    assert data.proposed_time is not None
    proposed = language.when(data.proposed_time, data.timezone)
    assert f"{language.labels['proposed']}: {proposed}" in email.text
    assert f"{language.labels['when']}: " not in email.text


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
    text = render(EventType.RESERVATION_REQUESTED, Audience.RESTAURANT, "it").text
    assert text.title == "Nuova prenotazione ricevuta"


def test_only_the_restaurant_and_the_guest_see_the_note() -> None:
    for audience in Audience:
        email = render(EventType.RESERVATION_REQUESTED, audience, "en", "no nuts").message(Channel.EMAIL, "", {})
        assert isinstance(email, EmailMessage)
        assert ("Note: no nuts" in email.text) == (audience in (Audience.RESTAURANT, Audience.CUSTOMER))


def test_the_preview_prints_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--event", "RESERVATION_ACCEPTED", "--audience", "CUSTOMER", "--channel", "EMAIL", "--locale", "es"]
    assert preview(arguments) == 0
    assert "Subject: Tu reserva está confirmada" in capsys.readouterr().out


def test_the_preview_refuses_an_audience_that_is_not_notified(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--event", "RESERVATION_ACCEPTED", "--audience", "ADMIN", "--channel", "EMAIL", "--locale", "es"]
    with pytest.raises(SystemExit):
        preview(arguments)
    assert "ADMIN is not notified of RESERVATION_ACCEPTED" in capsys.readouterr().err
