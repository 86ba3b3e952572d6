"""CORS: browsers may call the API only from the configured origins."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tablebell.testing import Database

from .conftest import running, settings_for

PAGE = "https://staff.example"


@pytest.fixture
async def browser(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        running(settings_for(database, cors_allowed_origins=(PAGE,))) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        yield client


async def preflight(browser: httpx.AsyncClient, origin: str) -> httpx.Response:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
    }
    return await browser.options("/notifications/1/actions", headers=headers)


async def test_an_allowed_origin_may_call(browser: httpx.AsyncClient) -> None:
    answer = await preflight(browser, PAGE)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
    assert "Access-Control-Allow-Credentials" not in answer.headers


async def test_another_origin_may_not_call(browser: httpx.AsyncClient) -> None:
    answer = await preflight(browser, "https://elsewhere.example")
    assert answer.status_code == 400
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_error_responses_have_cors_headers(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/notifications", headers={"Origin": PAGE})
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == PAGE
