"""The web page: the received messages, newest first, and one page per message.

All received content passes through `escape`. An e-mail's HTML is shown in an iframe without permissions (`sandbox`).
The content security policy, which the iframe inherits, allows the page's own files only: a mail loads nothing.
"""

import json
from dataclasses import asdict
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fastapi import APIRouter, HTTPException, Response

from tablebell_sandbox.active_faults import ActiveFaults
from tablebell_sandbox.channel import Channel
from tablebell_sandbox.message import Message
from tablebell_sandbox.message_api import json_response
from tablebell_sandbox.store import Store

CARDS = 50
EXCERPT = 300
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def html_response(html: str) -> Response:
    headers = {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
    return Response(html.encode("utf-8", "replace"), media_type="text/html; charset=utf-8", headers=headers)


def page_router(store: Store, active_faults: ActiveFaults) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    folder = files("tablebell_sandbox") / "web"
    shell = Template((folder / "page.html").read_text("utf-8"))
    assets = {
        "page.css": ((folder / "page.css").read_bytes(), "text/css; charset=utf-8"),
        "page.js": ((folder / "page.js").read_bytes(), "text/javascript; charset=utf-8"),
    }

    def cards(channel: Channel | None, since: int) -> str:
        newest = store.find(channel, limit=CARDS)
        return "".join(card(Message.of(record)) for record in reversed(newest) if record.sequence > since)

    @router.get("/")
    async def index(channel: Channel | None = None) -> Response:
        main = (
            f'{tabs(store, channel)}<p id="faults">{faults(active_faults)}</p><div id="cards">{cards(channel, 0)}</div>'
        )
        return html_response(shell.substitute(main=main, last=store.last_sequence, channel=channel or ""))

    @router.get("/updates")
    async def updates(since: int, channel: Channel | None = None) -> Response:
        return json_response(
            {
                "last": store.last_sequence,
                "oldest": store.oldest_sequence,
                "cards": cards(channel, since),
                "counts": {each: asdict(count) for each, count in store.counts().items()},
                "faults": faults(active_faults),
            }
        )

    @router.get("/messages/{sequence}")
    async def one_message(sequence: int) -> Response:
        record = store.get(sequence)
        if record is None:
            raise HTTPException(404, "This message is no longer stored.")
        main = f'<p><a href="/">All messages</a></p>{whole(Message.of(record))}'
        return html_response(shell.substitute(main=main, last="", channel=""))

    @router.get("/assets/{name}")
    async def asset(name: str) -> Response:
        if name not in assets:
            raise HTTPException(404)
        content, media_type = assets[name]
        return Response(content, media_type=media_type)

    return router


def tabs(store: Store, chosen: Channel | None) -> str:
    links = [f'<a href="/"{_current(chosen is None)}>All</a>']
    for channel, count in store.counts().items():
        refused = f"<small>{count.refused} refused</small>" if count.refused else "<small></small>"
        links.append(
            f'<a href="/?channel={channel}" data-channel="{channel}"{_current(chosen is channel)}>'
            f"{channel.label} <b>{count.accepted}</b> {refused}</a>"
        )
    return f"<nav>{''.join(links)}</nav>"


def faults(active_faults: ActiveFaults) -> str:
    """The active faults, which explain missing messages."""
    lines = [
        f"{channel.label}: {escape(json.dumps(fault))}"
        for channel in Channel
        for fault in active_faults.describe(channel)
    ]
    return "<br>".join(lines)


def card(message: Message) -> str:
    excerpt = message.text if len(message.text) <= EXCERPT else message.text[:EXCERPT] + "…"
    return (
        f'<article data-sequence="{message.sequence}"><header>{_head(message)}</header>'
        f'<h2><a href="/messages/{message.sequence}">{_title(message)}</a></h2>'
        f'<p class="to">{_recipients(message)}</p><p class="text">{escape(excerpt.strip())}</p></article>'
    )


def whole(message: Message) -> str:
    raw = message.raw if isinstance(message.raw, str) else json.dumps(message.raw, indent=2, ensure_ascii=False)
    facts: dict[str, Any] = {
        "to": ", ".join(message.to),
        "from": message.sender,
        "id": message.message_id,
        "key": message.key,
        **{f"envelope {name}": value for name, value in message.envelope.items()},
    }
    frame = ""
    if message.html is not None:
        frame = f'<h3>HTML</h3><iframe sandbox="" title="HTML part" srcdoc="{escape(message.html)}"></iframe>'
    return (
        f"<article><header>{_head(message)}</header><h2>{_title(message)}</h2>{_table(facts)}"
        f'<h3>Text</h3><p class="text">{escape(message.text)}</p>{frame}'
        f"<details><summary>Headers</summary>{_table(message.headers)}</details>"
        f"<details><summary>Raw</summary><pre>{escape(raw)}</pre></details></article>"
    )


def _head(message: Message) -> str:
    return (
        f'<span class="{message.channel}">{message.channel.label}</span> #{message.sequence} '
        f'<time datetime="{message.received_at}">{message.received_at[11:23]} UTC</time>'
    )


def _title(message: Message) -> str:
    return escape(message.subject or message.text.strip()[:60] or "(no subject)")


def _recipients(message: Message) -> str:
    return escape(", ".join(message.to))


def _table(rows: dict[str, Any]) -> str:
    cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items() if value)
    return f"<table>{''.join(cells)}</table>"


def _current(chosen: bool) -> str:  # noqa: FBT001 - an attribute is there or it is not
    return ' aria-current="page"' if chosen else ""
