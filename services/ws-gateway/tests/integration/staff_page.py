"""Opens the staff page in Chromium, and reads what it shows."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tablebell.testing.chromium import Chromium, Tab
from tablebell.testing.tokens import token

GIULIA, MARCO = "RESTAURANT_USER:50", "RESTAURANT_USER:51"
BOTH = (GIULIA, MARCO)

CARDS = "[...document.querySelectorAll('.card')].map(card => Number(card.dataset.id))"
IS_LIVE = "document.querySelector('#state').dataset.state === 'live'"


def reservation(name: str, guests: int, hours: int, **more: Any) -> dict[str, Any]:
    slot = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
    return {"customerName": name, "partySize": guests, "slotTime": slot.isoformat(), "timezone": "Europe/Rome", **more}


async def open_staff(browser: Chromium, url: str, person: str) -> Tab:
    tab = await browser.open(f"{url}/staff#token={token(person)}")
    await tab.wait_for(IS_LIVE)
    await tab.wait_for("document.querySelector('#list').ariaBusy === 'false'")
    return tab


def button(notification_id: int, action: str) -> str:
    return f"document.querySelector('[data-id=\"{notification_id}\"] [data-action={action}]')"


def is_shown(selector: str) -> str:
    return f"!!document.querySelector('{selector}')?.checkVisibility()"


async def text_of(tab: Tab, selector: str) -> str:
    """The text, without the marks that isolate names."""
    shown = await tab.evaluate(f"document.querySelector('{selector}').textContent")
    return str(shown).replace("\u2068", "").replace("\u2069", "")


async def press(tab: Tab, key: str, text: str = "") -> None:
    code = {"Enter": 13, "Tab": 9}[key]
    common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
    await tab.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
    await tab.call("Input.dispatchKeyEvent", type="keyUp", **common)


async def save(name: str, picture: bytes) -> None:
    """Save a screenshot in the folder that SCREENSHOTS names."""
    assert picture.startswith(b"\x89PNG")
    if folder := os.environ.get("SCREENSHOTS"):
        await asyncio.to_thread((Path(folder) / f"staff-{name}.png").write_bytes, picture)
