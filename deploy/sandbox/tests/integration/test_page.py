from email.message import EmailMessage
from html.parser import HTMLParser

import aiosmtplib
import httpx

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox

EVIL = "</p></article><script>alert('x')</script><img src=x onerror=alert(1)>\"' onload=\"alert(2)"


class Page(HTMLParser):
    """Collects every element of a page with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def assert_harmless(html: str) -> None:
    page = Page(html)
    assert [script.get("src") for script in page.named("script")] in ([], ["/assets/page.js"])
    assert page.named("img") == []
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    for attributes in page.named("a"):
        assert (attributes["href"] or "").startswith("/")


async def send_evil_everywhere(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    letter = EmailMessage()
    letter["Subject"] = EVIL
    letter["From"] = "noreply@example.com"
    letter["To"] = "anna@example.com"
    letter["Message-ID"] = "<x\"'><script>alert(3)</script>"
    letter["X-Evil"] = EVIL
    letter.set_content(EVIL)
    letter.add_alternative(f"<p>{EVIL}</p>", subtype="html")
    recipients = ['"<script>alert(4)</script>"@example.com']
    await aiosmtplib.send(letter, recipients=recipients, hostname="127.0.0.1", port=sandbox.smtp_port, start_tls=False)
    await http.post(sandbox.slack_url, json={"text": EVIL, EVIL: EVIL}, headers={"X-Evil": EVIL})
    form = {"To": "+393331234567", "From": EVIL, "Body": EVIL}
    await http.post(f"{sandbox.sms_url}/2010-04-01/Accounts/A/Messages.json", data=form, auth=("a", "b"))
    assert [message.channel for message in sandbox.messages()] == [Channel.EMAIL, Channel.SLACK, Channel.SMS]


async def test_message_content_cannot_inject_html(
    sandbox: RunningSandbox, http: httpx.AsyncClient, web: httpx.AsyncClient
) -> None:
    await send_evil_everywhere(sandbox, http)
    await web.put("/api/faults/EMAIL", json=[{"kind": "smtp", "code": 450, "match": EVIL}])

    index = (await web.get("/")).text
    assert_harmless(index)
    assert Page(index).text.count("alert('x')") >= 5
    for sequence in (1, 2, 3):
        assert_harmless((await web.get(f"/messages/{sequence}")).text)
    updates = (await web.get("/updates?since=0")).json()
    assert_harmless(updates["cards"])
    assert_harmless(updates["faults"])


async def test_an_emails_html_is_shown_in_a_frame_without_permissions(
    sandbox: RunningSandbox, http: httpx.AsyncClient, web: httpx.AsyncClient
) -> None:
    await send_evil_everywhere(sandbox, http)
    response = await web.get("/messages/1")

    (frame,) = Page(response.text).named("iframe")
    assert frame["sandbox"] == ""
    assert (frame["srcdoc"] or "").strip() == f"<p>{EVIL}</p>"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "img-src data:;" in policy


async def test_the_page_lists_the_newest_first_and_filters_by_channel(
    sandbox: RunningSandbox, http: httpx.AsyncClient, web: httpx.AsyncClient
) -> None:
    await send_evil_everywhere(sandbox, http)

    async def cards(path: str) -> list[str | None]:
        return [card["data-sequence"] for card in Page((await web.get(path)).text).named("article")]

    assert await cards("/") == ["3", "2", "1"]
    assert await cards("/?channel=SLACK") == ["2"]
    assert await cards("/?channel=PUSH") == []


async def test_updates_return_only_new_messages(
    sandbox: RunningSandbox, http: httpx.AsyncClient, web: httpx.AsyncClient
) -> None:
    await http.post(sandbox.slack_url, json={"text": "first"})
    await http.post(sandbox.slack_url, json={"text": "second"})
    news = (await web.get("/updates?since=1")).json()

    assert (news["last"], news["oldest"]) == (2, 1)
    assert "second" in news["cards"]
    assert "first" not in news["cards"]
    assert news["counts"]["SLACK"]["accepted"] == 2

    sandbox.clear()
    assert (await web.get("/updates?since=2")).json()["oldest"] == 3


async def test_the_page_loads_nothing_from_other_hosts(web: httpx.AsyncClient) -> None:
    html = (await web.get("/")).text
    page = Page(html)
    assets = [link["href"] for link in page.named("link")] + [script["src"] for script in page.named("script")]
    assert assets == ["data:,", "/assets/page.css", "/assets/page.js"]
    for path, kind in (("/assets/page.css", "text/css"), ("/assets/page.js", "text/javascript")):
        asset = await web.get(path)
        assert asset.headers["content-type"].startswith(kind)
        assert "http" not in asset.text
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.named("meta")
    assert (await web.get("/assets/page.html")).status_code == 404
