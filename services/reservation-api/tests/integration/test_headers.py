"""Security headers of all responses, errors included, and of the documentation page."""

import base64
import hashlib
import re

import httpx

from .conftest import Person, ask


async def test_every_response_has_the_security_headers(person: Person, api: str) -> None:
    anna = person("CUSTOMER", 5)
    reservation = (await ask(anna))["id"]
    answers = [
        await anna.get(f"/customer/reservation/{reservation}"),
        await anna.get("/customer/reservation/4711"),
        await anna.get("/nowhere"),
        await anna.post("/customer/reservation/ask", content=b"{"),
        await anna.request("PROPFIND", "/notifications"),
        await anna.get("/health/ready"),
        await anna.get("/metrics"),
        await anna.get("/openapi.json"),
    ]
    async with httpx.AsyncClient(base_url=api) as nobody:
        answers.append(await nobody.get("/notifications"))
    for answer in answers:
        assert answer.headers["Cache-Control"] == "no-store", answer.url
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; frame-ancestors 'none'")


async def test_the_documentation_runs_only_its_own_scripts_and_stores_no_token(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as http:
        page = await http.get("/docs")
        assert (await http.get("/docs/oauth2-redirect")).status_code == 404
    policy = dict(part.strip().split(" ", 1) for part in page.headers["Content-Security-Policy"].split(";"))
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert (policy["default-src"], policy["frame-ancestors"], policy["connect-src"]) == ("'none'", "'none'", "'self'")
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "persistAuthorization" not in page.text
