"""The HTTP client that the providers share: kept connections, and the classification of errors."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx

from channel_dispatcher.error_rules import Rules, code_class, parse_retry_after
from channel_dispatcher.outcome import ProviderDown, SendOutcome
from tablebell.outage import describe

LONGEST_IDLE = 60.0
LONGEST_REASON = 300


class HttpProvider:
    """One client per connection: a shared client scans all of its connections twice for each request.

    A client whose request failed is closed. A request that is cancelled at a bad moment can leave its connection
    occupied for ever, and every later request of that client then waits in vain (PoolTimeout).
    """

    def __init__(self, open_client: Callable[[], httpx.AsyncClient], timeout: float) -> None:
        self._open_client = open_client
        self._timeout = timeout
        self._idle: list[httpx.AsyncClient] = []

    async def post(self, url: str, **request: Any) -> httpx.Response | ProviderDown:
        """Returns the response, or the outcome if there is none."""
        client = self._idle.pop() if self._idle else self._open_client()
        response: httpx.Response | ProviderDown | None = None
        try:
            response = await self._post(client, url, request)
        finally:
            if isinstance(response, httpx.Response):
                self._idle.append(client)
            else:
                await client.aclose()
        return response

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _post(
        self, client: httpx.AsyncClient, url: str, request: Mapping[str, Any]
    ) -> httpx.Response | ProviderDown:
        # httpx limits each read; this limits a response that arrives byte by byte.
        longest = 2 * self._timeout
        try:
            async with asyncio.timeout(longest):
                return await client.post(url, **request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return ProviderDown(describe(error), certain=True)
        except httpx.TimeoutException as error:
            return ProviderDown(f"no answer within {self._timeout} s: {describe(error)}")
        except TimeoutError:
            return ProviderDown(f"no whole answer within {longest} s")
        except httpx.RequestError as error:
            return ProviderDown(f"no answer: {describe(error)}")


def classify_response(rules: Rules, response: httpx.Response, code: object = None, reason: str = "") -> SendOutcome:
    """Classifies a response that is not a success; `code` is the provider's own, besides the HTTP status."""
    status = response.status_code
    text = reason or response.text[:LONGEST_REASON]
    return rules.classify(
        f"{status} {code}",
        f"code {code}",
        str(status),
        code_class(status),
        reason=f"HTTP {status} {text}",
        after=parse_retry_after(response.headers.get("Retry-After")),
    )


def read_object(response: httpx.Response) -> Mapping[str, Any]:
    """The JSON object in a response; an empty one if, for example, a proxy answered with HTML."""
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


@asynccontextmanager
async def open_http(timeout: float, **options: Any) -> AsyncIterator[HttpProvider]:  # noqa: ASYNC109
    limits = httpx.Limits(max_connections=1, keepalive_expiry=LONGEST_IDLE)
    tls = httpx.create_ssl_context(trust_env=False)
    open_client = partial(httpx.AsyncClient, limits=limits, timeout=timeout, verify=tls, trust_env=False, **options)
    provider = HttpProvider(open_client, timeout)
    try:
        yield provider
    finally:
        await provider.close()
