"""`make preview`, and its mails in Chromium."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from notification_fanout.language import CODES
from tablebell.audience import AUDIENCES, channels_for
from tablebell.people import Channel
from tablebell.testing.chromium import Tab, chromium_process, open_chromium
from tablebell_tools.preview.command import preview
from tablebell_tools.preview.samples import Sample

MAILS = {
    f"{event_type}-{audience}-{code}"
    for event_type, audiences in AUDIENCES.items()
    for audience in audiences
    for code in CODES
    if Channel.EMAIL in channels_for(event_type)
}
HOSTILE = Sample(
    customer="<script>document.title='hacked'</script>" + "محمد" * 10,
    restaurant="Wörter" * 70,
    note="x" * 400 + " <img src=x onerror=alert(1)> 🍝",
    address="Via" * 130,
)


@pytest.fixture(scope="module")
def chromium_port() -> Iterator[int]:
    with chromium_process() as port:
        yield port


def test_the_preview_has_every_mail_and_an_index_page_with_all_texts(tmp_path: Path) -> None:
    index = preview(tmp_path / "new" / "folder", Sample())
    assert {path.stem for path in index.parent.glob("*.eml")} == MAILS
    assert {path.stem for path in index.parent.glob("*.html")} == MAILS | {"index"}
    page = index.read_text()
    assert set(re.findall(r'<iframe src="([^"]+)\.html"', page)) == MAILS
    for text in ("Nuova prenotazione: Anna Bianchi", "of 160 characters", "*New reservation request*", "Subject: "):
        assert text in page


@pytest.mark.parametrize("dark", [False, True])
async def test_no_mail_is_wider_than_a_phone_whatever_people_type(
    tmp_path: Path, chromium_port: int, dark: bool
) -> None:
    folder = preview(tmp_path, HOSTILE).parent
    async with open_chromium(chromium_port) as chromium:
        tab = await chromium.open("about:blank#new")
        if dark:
            await tab.use_dark()
        for name in sorted(mail for mail in MAILS if mail.endswith("-it")):
            await tab.go((folder / f"{name}.html").as_uri())
            await check_page(tab, name)


async def check_page(tab: Tab, page: str) -> None:
    for width in (320, 600):
        await tab.resize(width, 800)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width, page
    assert await tab.evaluate("document.title !== 'hacked' && document.querySelector('script, img') === null"), page
    # The text has enough contrast with the card: WCAG AA.
    assert await tab.evaluate(CONTRAST) >= 4.5, page
    assert tab.page_errors == []


CONTRAST = """
(() => {
  const luminance = colour => {
    const [r, g, b] = colour.match(/\\d+/g).map(part => part / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = element => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const contrasts = [...document.querySelectorAll('h1, p, a')].map(element => {
    const pair = [luminance(getComputedStyle(element).color), luminance(back(element))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  });
  return Math.min(...contrasts);
})()
"""
