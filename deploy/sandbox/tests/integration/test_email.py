import asyncio
from email.message import EmailMessage

import aiosmtplib
import httpx
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.mail_connection import MAX_MAIL_BYTES
from tablebell_sandbox.testing import RunningSandbox

SENDER, ANNA = "noreply@example.com", "anna@example.com"


async def test_a_multipart_mail_is_shown_in_its_parts(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    refused, answer = await smtp.send_message(letter)

    assert (refused, answer) == ({}, "2.0.0 OK: queued as 1")
    (message,) = sandbox.messages(Channel.EMAIL)
    assert message.to == [ANNA]
    assert message.sender == "Trattoria da Anna <noreply@example.com>"
    assert message.subject == "Nuova prenotazione ricevuta: è per 4"
    assert message.text.splitlines() == ["Ciao Anna,", "è arrivata una prenotazione."]
    assert message.html is not None
    assert message.html.strip() == "<p>Ciao <b>Anna</b></p>"
    assert message.headers["To"] == ANNA
    assert message.key == message.message_id == "<send-1@example.com>"
    assert message.envelope == {"from": SENDER, "tls": None, "login": None}
    assert isinstance(message.raw, str)
    assert message.raw.startswith("Subject: ")


async def test_the_server_offers_8bitmime_and_smtputf8(smtp: aiosmtplib.SMTP) -> None:
    await smtp.ehlo()
    assert smtp.supports_extension("8bitmime")
    assert smtp.supports_extension("smtputf8")
    assert smtp.supports_extension("pipelining")
    assert smtp.supports_extension("chunking")
    assert not smtp.supports_extension("starttls")


async def test_utf8_addresses_and_headers_arrive_as_they_were_sent(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP
) -> None:
    raw = "Subject: Caffè 日本\r\nMessage-ID: <é@example.com>\r\n\r\nperché\r\n".encode()
    await smtp.sendmail(SENDER, ["josé@exämple.com"], raw, mail_options=["SMTPUTF8", "BODY=8BITMIME"])

    (message,) = sandbox.messages()
    assert message.to == ["josé@exämple.com"]
    assert (message.subject, message.text, message.key) == ("Caffè 日本", "perché\r\n", "<é@example.com>")


@pytest.mark.parametrize(
    "body", [b"one line", b".\r\n..\r\n.dot\r\n", b"Subject: x\r\n\r\nends with dots\r\n...\r\n", b"\r\n\r\n"]
)
async def test_dot_stuffing_preserves_every_byte(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, body: bytes) -> None:
    await smtp.sendmail(SENDER, [ANNA], body)

    (message,) = sandbox.messages()
    assert message.raw == (body if body.endswith(b"\r\n") else body + b"\r\n").decode()


async def test_an_empty_mail_is_accepted(sandbox: RunningSandbox) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.smtp_port)
    writer.write(b"HELO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n")
    await reader.readuntil(b"354 ")
    await reader.readline()
    writer.write(b".\r\nQUIT\r\n")
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"250 ")
    assert sandbox.messages()[0].raw == ""


async def test_one_mail_to_three_recipients_is_one_message(sandbox: RunningSandbox, smtp: aiosmtplib.SMTP) -> None:
    to = [ANNA, '"odd one"@example.com', "carlo+tag@example.com"]
    await smtp.sendmail(SENDER, to, b"Subject: x\r\n\r\nhi\r\n")

    (message,) = sandbox.messages()
    assert message.to == to


async def test_a_connection_serves_one_mail_after_another(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    for number in range(20):
        letter.replace_header("Message-ID", f"<{number}@example.com>")
        await smtp.send_message(letter)

    assert sandbox.keys(Channel.EMAIL) == [f"<{number}@example.com>" for number in range(20)]
    assert [message.sequence for message in sandbox.messages()] == list(range(1, 21))


async def test_the_key_of_a_mail_without_a_message_id_is_its_contents(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP
) -> None:
    for text in (b"one", b"two", b"one"):
        await smtp.sendmail(SENDER, [ANNA], b"Subject: x\r\n\r\nMessage-ID: <not-a-header>\r\n" + text)

    first, second, third = sandbox.keys(Channel.EMAIL)
    assert first == third
    assert first != second


async def test_a_mail_that_is_too_big_is_refused_and_the_connection_stays_open(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    line = b"x" * 70 + b"\r\n"
    await smtp.ehlo()
    await smtp.mail(SENDER)
    await smtp.rcpt(ANNA)
    with pytest.raises(aiosmtplib.SMTPDataError) as refusal:
        await smtp.data(line * (MAX_MAIL_BYTES // len(line) + 2))
    assert refusal.value.code == 552

    await smtp.send_message(letter)
    assert len(sandbox.messages()) == 1


async def test_a_recipient_must_come_before_the_data(smtp: aiosmtplib.SMTP) -> None:
    await smtp.ehlo()
    await smtp.mail(SENDER)
    with pytest.raises(aiosmtplib.SMTPDataError) as refusal:
        await smtp.data(b"hi")
    assert refusal.value.code == 503


async def test_any_login_is_accepted_unless_one_is_set(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, letter: EmailMessage
) -> None:
    await smtp.login("whoever", "whatever")
    await smtp.send_message(letter)

    assert sandbox.messages()[0].envelope["login"] == "whoever"


async def test_an_unparsable_mail_is_listed(
    sandbox: RunningSandbox, smtp: aiosmtplib.SMTP, web: httpx.AsyncClient
) -> None:
    broken = (
        b"Subject: =?utf-8?b?%%%?= =?x-nonsense?q?=FF?=\r\nFrom: \xff\xfe <\r\n"
        b"Content-Type: text/plain; charset=klingon\r\nContent-Transfer-Encoding: base64\r\n"
        b"\r\n\xff\xff not base64 \x00\r\n"
    )
    await smtp.sendmail(SENDER, [ANNA], broken)

    assert (await web.get("/api/messages")).status_code == 200
    assert (await web.get("/")).status_code == 200
    assert (await web.get("/messages/1")).status_code == 200


async def test_a_mail_in_chunks_is_joined(sandbox: RunningSandbox) -> None:
    first, last = b"Subject: x\r\n\r\n.dot\r", b"\n.\r\nBDAT 5 LAST\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.smtp_port)
    writer.write(
        b"EHLO me\r\nMAIL FROM:<%s>\r\nRCPT TO:<%s>\r\n" % (SENDER.encode(), ANNA.encode())
        + b"BDAT %d\r\n%sBDAT %d LAST\r\n%s" % (len(first), first, len(last), last)
        + b"BDAT 2 LAST\r\nhiBDAT x\r\nQUIT\r\n"
    )
    codes = [line[:3] for line in (await reader.read()).splitlines() if line[3:4] == b" "]
    writer.close()

    assert codes == [b"220", b"250", b"250", b"250", b"250", b"250", b"503", b"501", b"221"]
    (message,) = sandbox.messages()
    assert message.raw == (first + last).decode()


async def test_a_chunk_that_is_too_big_is_discarded_and_refused(sandbox: RunningSandbox) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", sandbox.smtp_port)
    size = MAX_MAIL_BYTES + 1
    writer.write(b"EHLO me\r\nMAIL FROM:<%s>\r\nRCPT TO:<%s>\r\n" % (SENDER.encode(), ANNA.encode()))
    writer.write(b"BDAT %d LAST\r\n" % size + b"x" * size + b"QUIT\r\n")
    codes = [line[:3] for line in (await reader.read()).splitlines() if line[3:4] == b" "]
    writer.close()

    assert codes == [b"220", b"250", b"250", b"250", b"552", b"221"]
    assert sandbox.messages() == []
