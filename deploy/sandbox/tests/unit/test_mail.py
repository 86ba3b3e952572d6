import pytest

from tablebell_sandbox.mail import Mail


def mail(raw: bytes) -> Mail:
    return Mail(raw.replace(b"\n", b"\r\n"), sender="bounce@example.com", tls=None, login=None)


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        (b"Message-ID: <a@b>\n", "<a@b>"),
        (b"Subject: x\nmessage-id:<a@b>\n", "<a@b>"),
        (b"Message-ID:\n <folded@b>\n", "<folded@b>"),
    ],
)
def test_the_key_is_the_message_id_in_any_spelling(headers: bytes, key: str) -> None:
    assert mail(headers + b"\nMessage-ID: <body@b>\n").key == key


def test_a_header_that_comes_twice_is_shown_twice() -> None:
    assert mail(b"Received: one\nReceived: two\n\n").describe().headers == {"Received": "one\ntwo"}


def test_encoded_and_folded_headers_are_readable() -> None:
    description = mail(b"Subject: =?utf-8?q?Caff=C3=A8?=\n =?iso-8859-1?q?_perch=E9?=\n\n").describe()
    assert description.subject == "Caffè perché"


def test_without_a_from_header_the_sender_is_from_the_envelope() -> None:
    assert mail(b"Subject: x\n\nhi\n").describe().sender == "bounce@example.com"


def test_an_html_mail_alone_has_no_text() -> None:
    description = mail(b"Content-Type: text/html; charset=iso-8859-1\n\n<p>\xe8</p>\n").describe()
    assert (description.text, description.html) == ("", "<p>è</p>\r\n")


def test_an_attachment_is_not_the_text() -> None:
    raw = (
        b'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n'
        b"Content-Disposition: attachment; filename=menu.txt\n\nmenu\n--b\nContent-Type: text/plain\n\nhello\n--b--\n"
    )
    assert mail(raw).describe().text == "hello"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"Content-Type: multipart/mixed\n\nno boundary\n",
        b"Content-Type: text/plain; charset=x-no\n\n\xe8",
    ],
)
def test_any_content_can_be_described(raw: bytes) -> None:
    assert mail(raw).describe().html is None
