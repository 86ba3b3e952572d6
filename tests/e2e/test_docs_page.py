"""The API documentation in Chromium: its content security policy allows everything that it needs."""

import pytest
from chaos.environment import ChaosEnvironment

from tablebell.testing.chromium import chromium_process, open_chromium

pytestmark = pytest.mark.timeout(120)


async def test_the_documentation_shows_every_tag_without_an_error(environment: ChaosEnvironment) -> None:
    with chromium_process() as port:
        async with open_chromium(port) as chromium:
            tab = await chromium.open(f"{environment.api_urls[0]}/docs")
            await tab.wait_for("document.querySelectorAll('.opblock-tag').length >= 5", within=30)
            await tab.evaluate("document.querySelector('.opblock-summary-control').click()")
            await tab.wait_for("document.querySelector('.opblock-body') !== null", within=30)
            assert tab.page_errors == []
