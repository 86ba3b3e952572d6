"""PipelinedSmtp against a scripted server, over a real connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
from aiosmtplib import SMTP

from channel_dispatcher.channels.smtp.pipelined import ConnectionLost, PipelinedSmtp
from tablebell.testing import eventually

ENVELOPE = (b"MAIL FROM:<a@b.example>", b"RCPT TO:<c@d.example>")
MAIL = b"Subject: Hi\r\n\r\n.dot\r\n"
STUFFED = b"Subject: Hi\r\n\r\n..dot\r\n.\r\n"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def connected(script: Script, *extensions: str) -> AsyncIterator[PipelinedSmtp]:
    """A connection to a server that offers the extensions and then follows the script."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 hello\r\n")
            await reader.readline()
            writer.write(b"".join(b"250-%s\r\n" % name.encode() for name in ("server", *extensions)) + b"250 HELP\r\n")
            await script(reader, writer)
            ended.set_result(None)
        except Exception as error:  # noqa: BLE001 - the test raises it
            ended.set_exception(error)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        client = SMTP(hostname="127.0.0.1", port=server.sockets[0].getsockname()[1], timeout=5)
        await client.connect()
        connection = PipelinedSmtp(client)
        yield connection
        connection.close()
        await asyncio.wait_for(ended, 5)
        await asyncio.sleep(0)  # both ends close in the next iteration of the loop


async def expect(reader: asyncio.StreamReader, *texts: bytes) -> None:
    for text in texts:
        assert await reader.readexactly(len(text)) == text


async def test_without_extensions_each_command_waits_for_its_reply() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for sent, reply in (
            (ENVELOPE[0] + b"\r\n", b"250 ok\r\n"),
            (ENVELOPE[1] + b"\r\n", b"250-two lines\r\n250 ok\r\n"),
            (b"DATA\r\n", b"354 go\r\n"),
            (STUFFED, b"250 queued\r\n"),
        ):
            await expect(reader, sent)
            await asyncio.sleep(0.01)
            assert not reader._buffer  # type: ignore[attr-defined]  # it waits for the reply
            writer.write(reply)

    async with connected(script) as connection:
        replies = await connection.send(ENVELOPE, MAIL)
    assert [(reply.code, reply.message) for reply in replies] == [
        (250, "ok"),
        (250, "two lines\nok"),
        (250, "queued"),
    ]


async def test_pipelining_sends_the_whole_envelope_at_once() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"DATA\r\n")
        writer.write(b"250 ok\r\n250 ok\r\n354 go\r\n")
        await expect(reader, STUFFED)
        writer.write(b"250 queued\r\n")

    async with connected(script, "PIPELINING") as connection:
        assert [reply.code for reply in await connection.send(ENVELOPE, MAIL)] == [250, 250, 250]


async def test_chunking_sends_everything_at_once_without_dot_stuffing() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"BDAT %d LAST\r\n" % len(MAIL), MAIL)
        for part in (
            b"25",
            b"0 ok\r\n250 o",
            b"k\r\n250-queued\r\n250 as 7\r",
            b"\n",
        ):  # replies may arrive in any pieces
            writer.write(part)
            await asyncio.sleep(0.01)

    async with connected(script, "PIPELINING", "CHUNKING") as connection:
        replies = await connection.send(ENVELOPE, MAIL)
    assert replies[-1].message == "queued\nas 7"


async def test_a_rejected_recipient_ends_the_replies_and_the_connection_stays_usable() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"BDAT %d LAST\r\n" % len(MAIL), MAIL)
        writer.write(b"250 ok\r\n550 5.1.1 nobody\r\n503 no recipients\r\n")
        await expect(reader, b"RSET\r\n")
        writer.write(b"250 ok\r\n")

    async with connected(script, "PIPELINING", "CHUNKING") as connection:
        replies = await connection.send(ENVELOPE, MAIL)
        assert [reply.code for reply in replies] == [250, 550]
        await connection.reset()
        assert connection.is_open


async def test_data_without_a_valid_recipient_sends_an_empty_mail() -> None:
    """RFC 2920 allows a server to reply 354 although it rejected every recipient."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"DATA\r\n")
        writer.write(b"250 ok\r\n550 nobody\r\n354 go\r\n")
        await expect(reader, b".\r\n")
        writer.write(b"554 no valid recipients\r\n")

    async with connected(script, "PIPELINING") as connection:
        assert [reply.code for reply in await connection.send(ENVELOPE, MAIL)] == [250, 550]
        assert connection.is_open


@pytest.mark.parametrize(("sent", "received"), [(b"", 0), (b"250 ok\r\n", 1), (b"250 ok\r\n250 ok\r\n25", 2)])
async def test_a_lost_connection_has_the_number_of_received_replies(sent: bytes, received: int) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(sent)

    async with connected(script, "PIPELINING", "CHUNKING") as connection:
        with pytest.raises(ConnectionLost) as lost:
            await connection.send(ENVELOPE, MAIL)
        assert lost.value.received == received
        assert not connection.is_open
        with pytest.raises(ConnectionLost):
            await connection.reset()


async def test_a_421_is_returned_although_the_server_closed_the_connection() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(b"421 too busy\r\n")

    async with connected(script, "PIPELINING", "CHUNKING") as connection:
        assert [reply.code for reply in await connection.send(ENVELOPE, MAIL)] == [421]


@pytest.mark.parametrize(
    "sent",
    [b"garbage\r\n", b"250 ok\r\n250 ok\r\n250 ok\r\n250 one too many\r\n", b"2" * 70_000],
    ids=["no", "more", "endless"],
)
async def test_an_invalid_reply_closes_the_connection(sent: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(sent)
        await reader.read()

    async with connected(script, "PIPELINING", "CHUNKING") as connection:
        if sent.startswith(b"250"):
            assert len(await connection.send(ENVELOPE, MAIL)) == 3
        else:
            with pytest.raises(ConnectionLost):
                await connection.send(ENVELOPE, MAIL)
        assert not connection.is_open


async def test_an_unsolicited_reply_closes_the_connection() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(b"421 idle for too long\r\n")
        await reader.read()

    async with connected(script) as connection:
        await eventually(lambda: not connection.is_open)


async def test_a_command_with_a_line_break_is_rejected() -> None:
    async def script(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    async with connected(script) as connection:
        with pytest.raises(ValueError, match="control characters"):
            await connection.send((b"MAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>",), MAIL)
