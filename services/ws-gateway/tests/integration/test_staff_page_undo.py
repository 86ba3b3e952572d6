"""Undo on the staff page, in Chromium: for its window, a decision can be taken back by whoever made it."""

import pytest

from tablebell.testing import eventually
from tablebell.testing.chromium import Chromium

from .harness import RunningGateway, StartGateway
from .inbox_api import InboxApi
from .staff_page import BOTH, GIULIA, MARCO, button, open_staff, reservation, save, text_of

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def gateway(start_gateway: StartGateway, api: InboxApi) -> RunningGateway:
    return await start_gateway(public_api_url=api.url)


def undo_of(notification_id: int) -> str:
    return f"document.querySelector('[data-id=\"{notification_id}\"] [data-undo]')"


@pytest.mark.parametrize("locale", ["en", "it", "es", "pt"])
async def test_a_decision_can_be_undone_while_the_guest_is_not_told_and_is_open_again_for_all(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium, locale: str
) -> None:
    sentences = {
        "en": ("The guest has not been told yet.", "Giulia undid the decision.", "Undo"),
        "it": ("Il cliente non è ancora stato avvisato.", "Giulia ha annullato la decisione.", "Annulla"),
        "es": ("Aún no se ha avisado al cliente.", "Giulia ha deshecho la decisión.", "Deshacer"),
        "pt": ("O cliente ainda não foi avisado.", "Giulia anulou a decisão.", "Anular"),
    }[locale]
    api.locale, api.undo_seconds = locale, 60
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    giulia = await open_staff(chromium, gateway.http_url, GIULIA)
    await giulia.resize(390, 844, mobile=True)
    marco = await open_staff(chromium, gateway.http_url, MARCO)
    hers, his = api.ids(GIULIA)[0], api.ids(MARCO)[0]
    await giulia.wait_for(f"{button(hers, 'CONFIRMED')} !== null")
    await giulia.evaluate(f"{button(hers, 'CONFIRMED')}.click()")
    await giulia.wait_for(f"{undo_of(hers)} !== null")
    await marco.wait_for(f"{button(his, 'CONFIRMED')} === null")
    assert await marco.evaluate(f"{undo_of(his)} === null")
    assert await giulia.evaluate(f"{undo_of(hers)}.textContent") == sentences[2]
    assert sentences[0] in await text_of(giulia, f'[data-id="{hers}"] .story')
    assert await giulia.evaluate("document.documentElement.scrollWidth") <= 390
    await save(f"undo-{locale}", await giulia.screenshot())
    await giulia.evaluate(f"{undo_of(hers)}.click()")
    await giulia.wait_for(f"{undo_of(hers)} === null")
    assert sentences[1] in await text_of(giulia, f'[data-id="{hers}"] .story')
    again = await eventually(lambda: api.open(MARCO))
    for tab, new in ((giulia, api.open(GIULIA)[0]), (marco, again[0])):
        await tab.wait_for("document.querySelector('#open-count').textContent === '1'")
        await tab.evaluate("document.querySelector('#bring-in').click()")
        await tab.wait_for(f"{button(new, 'CONFIRMED')} !== null")
        assert sentences[1] in await text_of(tab, f'[data-id="{new}"] .story')
    await save(f"undone-{locale}", await giulia.screenshot())
    assert giulia.page_errors == marco.page_errors == []


async def test_the_undo_button_disappears_when_the_window_has_closed(
    gateway: RunningGateway, api: InboxApi, chromium: Chromium
) -> None:
    api.undo_seconds = 0.5
    api.add(*BOTH, **reservation("Anna Bianchi", 4, 30))
    giulia = await open_staff(chromium, gateway.http_url, GIULIA)
    hers = api.ids(GIULIA)[0]
    await giulia.evaluate(f"{button(hers, 'REJECTED')}.click()")
    await giulia.wait_for(f"{button(hers, 'REJECTED')} === null")
    await giulia.wait_for(f"{undo_of(hers)} === null && !document.querySelector('.story').textContent.includes('told')")
    assert (await text_of(giulia, f'[data-id="{hers}"] .story')).startswith("Giulia declined the request")
