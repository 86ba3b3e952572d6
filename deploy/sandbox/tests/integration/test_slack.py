import json
from typing import Any

import httpx
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox


async def test_a_post_gets_ok(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    payload = {
        "text": "Prenotazione 12 rifiutata",
        "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "Rifiutata"}}],
        "metadata": {"event_type": "notification", "event_payload": {"channelSendId": "42"}},
    }
    response = await http.post(sandbox.slack_url, json=payload)

    assert (response.status_code, response.text) == (200, "ok")
    assert response.headers["content-type"].startswith("text/plain")
    (message,) = sandbox.messages(Channel.SLACK)
    assert (message.to, message.subject, message.text) == (["T000/B000"], "Rifiutata", "Prenotazione 12 rifiutata")
    assert (message.key, message.raw) == ("42", payload)


async def test_the_text_of_blocks_is_shown(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "one"}, "fields": [{"type": "mrkdwn", "text": "two"}]},
        {"type": "context", "elements": [{"type": "mrkdwn", "text": "three"}]},
    ]
    await http.post(sandbox.slack_url, json={"blocks": blocks})

    assert sandbox.messages()[0].text == "one\ntwo\nthree"


async def test_the_form_with_a_payload_field_works_too(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    response = await http.post(sandbox.slack_url, data={"payload": json.dumps({"text": "ciao"})})

    assert response.text == "ok"
    assert sandbox.messages()[0].text == "ciao"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"no json", "invalid_payload"),
        (b'"text"', "invalid_payload"),
        (b"[" * 100_000, "invalid_payload"),
        (b"{}", "no_text"),
    ],
)
async def test_an_invalid_payload_gets_slacks_400(
    sandbox: RunningSandbox, http: httpx.AsyncClient, body: bytes, word: str
) -> None:
    response = await http.post(sandbox.slack_url, content=body)

    assert (response.status_code, response.text) == (400, word)
    assert sandbox.count(Channel.SLACK).refused == 1


@pytest.mark.parametrize("path", ["/services/X000/B000/XXXX", "/services/T000/X000/XXXX", "/services/T000", "/"])
async def test_an_unknown_hook_is_no_service(sandbox: RunningSandbox, http: httpx.AsyncClient, path: str) -> None:
    response = await http.post(httpx.URL(sandbox.slack_url).join(path), json={"text": "x"})

    assert (response.status_code, response.text) == (404, "no_service")


@pytest.mark.parametrize("metadata", [None, 7, {"event_payload": [1]}])
async def test_without_an_id_the_payload_is_the_key(
    sandbox: RunningSandbox, http: httpx.AsyncClient, metadata: Any
) -> None:
    payload = {"text": "ciao", "metadata": metadata}
    await http.post(sandbox.slack_url, json=payload)

    assert [json.loads(key) for key in sandbox.keys(Channel.SLACK)] == [payload]
