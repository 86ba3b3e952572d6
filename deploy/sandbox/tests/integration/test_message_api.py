from datetime import datetime
from email.message import EmailMessage

import aiosmtplib
import httpx
import pytest

from tablebell_sandbox.testing import RunningSandbox, running_sandbox


async def post(sandbox: RunningSandbox, http: httpx.AsyncClient, *texts: str) -> None:
    for text in texts:
        response = await http.post(sandbox.slack_url, json={"text": text})
        assert response.is_success


async def test_a_message_is_listed_with_everything_about_it(
    smtp: aiosmtplib.SMTP, web: httpx.AsyncClient, letter: EmailMessage
) -> None:
    await smtp.send_message(letter)
    (message,) = (await web.get("/api/messages")).json()

    assert (message["sequence"], message["channel"], message["to"]) == (1, "EMAIL", ["anna@example.com"])
    moment = datetime.fromisoformat(message["received_at"])
    assert moment.tzinfo is not None
    assert moment.timestamp() == pytest.approx(message["received_at_epoch"], abs=1e-6)
    assert len(message["received_at"]) == len("2030-01-01T00:00:00.000000+00:00")
    assert message["html"].strip() == "<p>Ciao <b>Anna</b></p>"
    assert message["headers"]["Message-ID"] == message["key"] == "<send-1@example.com>"
    assert message["raw"].startswith("Subject: ")


async def test_filters_by_channel_and_recipient(
    sandbox: RunningSandbox,
    smtp: aiosmtplib.SMTP,
    web: httpx.AsyncClient,
    http: httpx.AsyncClient,
    letter: EmailMessage,
) -> None:
    await smtp.send_message(letter)
    await post(sandbox, http, "one")

    async def listed(query: str) -> list[str]:
        return [message["channel"] for message in (await web.get(f"/api/messages?{query}")).json()]

    assert await listed("") == ["EMAIL", "SLACK"]
    assert await listed("channel=EMAIL") == ["EMAIL"]
    assert await listed("channel=PUSH") == []
    assert await listed("to=ANNA@") == ["EMAIL"]
    assert await listed("to=t000/") == ["SLACK"]
    assert (await web.get("/api/messages?channel=PIGEON")).status_code == 422
    assert (await web.get("/api/messages?limit=1001")).status_code == 422


async def test_since_pages_forward_and_the_default_is_the_newest(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    await post(sandbox, http, "a", "b", "c", "d", "e")

    async def texts(query: str) -> str:
        return "".join(message["text"] for message in (await web.get(f"/api/messages?{query}")).json())

    assert await texts("limit=2") == "de"
    assert await texts("since=0&limit=2") == "ab"
    assert await texts("since=2&limit=2") == "cd"
    assert await texts("since=4") == "e"
    assert await texts("since=5") == ""


async def test_beyond_the_bound_the_oldest_messages_are_dropped_and_counts_continue(http: httpx.AsyncClient) -> None:
    async with running_sandbox(max_messages=3) as sandbox:
        await post(sandbox, http, "a", "b", "c", "d", "e")
        listed = (await http.get(f"{sandbox.web_url}/api/messages?since=0")).json()
        counts = (await http.get(f"{sandbox.web_url}/api/counts")).json()
        keys = (await http.get(f"{sandbox.web_url}/api/keys?channel=SLACK")).json()
        gone = await http.get(f"{sandbox.web_url}/messages/2")
        held = await http.get(f"{sandbox.web_url}/messages/3")

    assert [(message["sequence"], message["text"]) for message in listed] == [(3, "c"), (4, "d"), (5, "e")]
    assert counts["SLACK"] == {"accepted": 5, "refused": 0}
    assert len(keys) == 5
    assert (gone.status_code, held.status_code) == (404, 200)


async def test_refusals_are_counted_per_channel(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    await post(sandbox, http, "a")
    await http.post(sandbox.slack_url, content=b"nonsense")

    counts = (await web.get("/api/counts")).json()
    assert counts["SLACK"] == {"accepted": 1, "refused": 1}
    assert counts["EMAIL"] == counts["SMS"] == counts["PUSH"] == {"accepted": 0, "refused": 0}


async def test_keys_keep_the_order_and_the_duplicates(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    for send_id in ("7", "8", "7"):
        metadata = {"event_type": "x", "event_payload": {"channelSendId": send_id}}
        await http.post(sandbox.slack_url, json={"text": "x", "metadata": metadata})

    assert (await web.get("/api/keys?channel=SLACK")).json() == ["7", "8", "7"]
    assert (await web.get("/api/keys?channel=EMAIL")).json() == []
    assert (await web.get("/api/keys")).status_code == 422


async def test_delete_keeps_only_the_sequence_number(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    await post(sandbox, http, "a", "b")
    assert (await web.delete("/api/messages")).status_code == 204
    assert (await web.get("/api/messages")).json() == []
    assert (await web.get("/api/counts")).json()["SLACK"] == {"accepted": 0, "refused": 0}
    assert (await web.get("/api/keys?channel=SLACK")).json() == []

    await post(sandbox, http, "c")
    assert [message["sequence"] for message in (await web.get("/api/messages?since=2")).json()] == [3]


async def test_a_lone_surrogate_can_be_listed(
    sandbox: RunningSandbox, web: httpx.AsyncClient, http: httpx.AsyncClient
) -> None:
    await http.post(sandbox.slack_url, content=b'{"text": "\\ud800"}')

    assert (await web.get("/api/messages")).json()[0]["text"] == "\ud800"
    assert (await web.get("/api/keys?channel=SLACK")).status_code == 200
    assert (await web.get("/")).status_code == 200


async def test_health_checks_respond(web: httpx.AsyncClient) -> None:
    assert (await web.get("/health/live")).status_code == 200
    assert (await web.get("/health/ready")).status_code == 200
