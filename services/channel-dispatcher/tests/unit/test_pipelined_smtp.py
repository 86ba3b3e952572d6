"""The line against a server that says word for word what it is told to, over a real connection."""

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
    """A line to a server that offers the extensions and then follows the script."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"220 hello\r\n")
            await reader.readline()
            writer.write(b"".join(b"250-%s\r\n" % name.encode() for name in ("server", *extensions)) + b"250 HELP\r\n")
            await script(reader, writer)
            ended.set_result(None)
        except Exception as error:  # noqa: BLE001 - the test has to hear of it
            ended.set_exception(error)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connection = SMTP(hostname="127.0.0.1", port=server.sockets[0].getsockname()[1], timeout=5)
        await connection.connect()
        line = PipelinedSmtp(connection)
        yield line
        line.close()
        await asyncio.wait_for(ended, 5)
        await asyncio.sleep(0)  # both ends close in the loop's next turn


async def expect(reader: asyncio.StreamReader, *texts: bytes) -> None:
    for text in texts:
        assert await reader.readexactly(len(text)) == text


async def test_a_server_without_extensions_is_asked_one_thing_at_a_time() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said, answer in (
            (ENVELOPE[0] + b"\r\n", b"250 ok\r\n"),
            (ENVELOPE[1] + b"\r\n", b"250-two lines\r\n250 ok\r\n"),
            (b"DATA\r\n", b"354 go\r\n"),
            (STUFFED, b"250 queued\r\n"),
        ):
            await expect(reader, said)
            await asyncio.sleep(0.01)
            assert not reader._buffer  # type: ignore[attr-defined]  # it waits for the answer
            writer.write(answer)

    async with connected(script) as line:
        answers = await line.send(ENVELOPE, MAIL)
    assert [(answer.code, answer.message) for answer in answers] == [
        (250, "ok"),
        (250, "two lines\nok"),
        (250, "queued"),
    ]


async def test_pipelining_says_the_whole_envelope_at_once() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"DATA\r\n")
        writer.write(b"250 ok\r\n250 ok\r\n354 go\r\n")
        await expect(reader, STUFFED)
        writer.write(b"250 queued\r\n")

    async with connected(script, "PIPELINING") as line:
        assert [answer.code for answer in await line.send(ENVELOPE, MAIL)] == [250, 250, 250]


async def test_chunking_says_everything_at_once_and_stuffs_no_dots() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"BDAT %d LAST\r\n" % len(MAIL), MAIL)
        for part in (b"25", b"0 ok\r\n250 o", b"k\r\n250-queued\r\n250 as 7\r", b"\n"):  # answers come in any pieces
            writer.write(part)
            await asyncio.sleep(0.01)

    async with connected(script, "PIPELINING", "CHUNKING") as line:
        answers = await line.send(ENVELOPE, MAIL)
    assert answers[-1].message == "queued\nas 7"


async def test_a_refused_recipient_ends_the_answers_and_the_line_serves_the_next_mail() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"BDAT %d LAST\r\n" % len(MAIL), MAIL)
        writer.write(b"250 ok\r\n550 5.1.1 nobody\r\n503 no recipients\r\n")
        await expect(reader, b"RSET\r\n")
        writer.write(b"250 ok\r\n")

    async with connected(script, "PIPELINING", "CHUNKING") as line:
        answers = await line.send(ENVELOPE, MAIL)
        assert [answer.code for answer in answers] == [250, 550]
        await line.reset()
        assert line.is_open


async def test_a_server_that_wants_a_mail_for_nobody_gets_an_empty_one() -> None:
    """RFC 2920 lets a server say 354 although it refused every recipient."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await expect(reader, *(command + b"\r\n" for command in ENVELOPE), b"DATA\r\n")
        writer.write(b"250 ok\r\n550 nobody\r\n354 go\r\n")
        await expect(reader, b".\r\n")
        writer.write(b"554 no valid recipients\r\n")

    async with connected(script, "PIPELINING") as line:
        assert [answer.code for answer in await line.send(ENVELOPE, MAIL)] == [250, 550]
        assert line.is_open


@pytest.mark.parametrize(("said", "answered"), [(b"", 0), (b"250 ok\r\n", 1), (b"250 ok\r\n250 ok\r\n25", 2)])
async def test_a_cut_line_tells_how_far_it_came(said: bytes, answered: int) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(said)

    async with connected(script, "PIPELINING", "CHUNKING") as line:
        with pytest.raises(ConnectionLost) as lost:
            await line.send(ENVELOPE, MAIL)
        assert lost.value.received == answered
        assert not line.is_open
        with pytest.raises(ConnectionLost):
            await line.reset()


async def test_a_goodbye_is_heard_although_the_server_hung_up_after_it() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(b"421 too busy\r\n")

    async with connected(script, "PIPELINING", "CHUNKING") as line:
        assert [answer.code for answer in await line.send(ENVELOPE, MAIL)] == [421]


@pytest.mark.parametrize(
    "said",
    [b"garbage\r\n", b"250 ok\r\n250 ok\r\n250 ok\r\n250 one too many\r\n", b"2" * 70_000],
    ids=["no", "more", "endless"],
)
async def test_what_is_no_answer_closes_the_line(said: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"dot\r\n")
        writer.write(said)
        await reader.read()

    async with connected(script, "PIPELINING", "CHUNKING") as line:
        if said.startswith(b"250"):
            assert len(await line.send(ENVELOPE, MAIL)) == 3
        else:
            with pytest.raises(ConnectionLost):
                await line.send(ENVELOPE, MAIL)
        assert not line.is_open


async def test_who_speaks_while_nobody_asks_is_hung_up_on() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(b"421 idle for too long\r\n")
        await reader.read()

    async with connected(script) as line:
        await eventually(lambda: not line.is_open)


async def test_no_command_can_hold_another() -> None:
    async def script(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""

    async with connected(script) as line:
        with pytest.raises(ValueError, match="control characters"):
            await line.send((b"MAIL FROM:<a@b.example>\r\nRCPT TO:<x@y.example>",), MAIL)
