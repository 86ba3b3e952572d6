"""OpenAPI: every response to generated requests is documented, and none is a 5xx."""

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest

from tablebell.postgres import Pool
from tablebell.testing import Database

from .conftest import ask, fan_out, token
from .processes import replicas

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Each user only calls routes that are open to them: others return 403.
PEOPLE = {
    ("CUSTOMER", 5): "^/(customer|me|restaurants)",
    ("RESTAURANT_USER", 50): "^/(restaurant(/|$)|notifications)",
    ("AGENCY_USER", 70): "^/agency",
    ("ADMIN_USER", 1): "^/admin",
}

PUBLIC_TAGS = {"Public", "Sign-in"}


@pytest.mark.timeout(240)
async def test_no_generated_request_gets_a_5xx_or_an_undocumented_response(
    database: Database, pool: Pool, tmp_path: Path
) -> None:
    async with replicas(database, 1) as (api,):
        async with httpx.AsyncClient(base_url=api.url) as http:
            http.headers["Authorization"] = f"Bearer {token('CUSTOMER', 5)}"
            reservation = (await ask(http))["id"]
        await fan_out(pool, reservation)
        runs = [fuzz(api.url, *person, paths, tmp_path) for person, paths in PEOPLE.items()]
        for code, output in await asyncio.gather(*runs):
            assert code == 0, output


async def fuzz(url: str, user_type: str, user_id: int, paths: str, directory: Path) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--include-path-regex", paths),
        *("--header", f"Authorization: Bearer {token(user_type, user_id)}"),
        *("--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--mode", "all"),
        *("--max-examples", "20", "--max-time", "15", "--seed", "1", "--no-color"),
        cwd=directory,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()[-6000:]


async def test_the_documentation_needs_no_other_host(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as http:
        page = (await http.get("/docs")).text
        assert "https://" not in page
        script = page.split('<script src="')[1].split('"')[0]
        assert (await http.get(script)).status_code == 200


async def test_every_operation_is_described_with_its_errors_and_an_example(api: str) -> None:
    async with httpx.AsyncClient(base_url=api) as http:
        schema = (await http.get("/openapi.json")).json()
    operations = [(path, name, one) for path, item in schema["paths"].items() for name, one in item.items()]
    assert operations
    for path, name, operation in operations:
        assert operation["summary"], path
        assert len(operation["tags"]) == 1, path
        statuses = {"422", "429", "503"} if operation["tags"][0] in PUBLIC_TAGS else {"401", "403", "422", "429", "503"}
        assert statuses <= set(operation["responses"]), path
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert set(response["content"]) == {"application/problem+json"}, (path, status)
                assert response["content"]["application/problem+json"]["example"]["status"] == int(status)
        if "text/csv" in operation.get("requestBody", {}).get("content", {}):
            assert operation["requestBody"]["content"]["text/csv"]["example"]
        elif "requestBody" in operation:
            reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            body = schema["components"]["schemas"][reference.rsplit("/", 1)[1]]
            assert "example" in body or "examples" in body, (path, name)
    assert {tag["name"] for tag in schema["tags"]} == {one["tags"][0] for _, _, one in operations}
