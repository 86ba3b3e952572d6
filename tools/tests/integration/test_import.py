"""`make import` against a real database: usage, a dry run, problems, and an import that can be repeated."""

import asyncio
import sys
from pathlib import Path

from tablebell.postgres import Pool
from tablebell.testing import Database

ROWS = (f"customer,C-{n},Guest {n},guest{n}@mail.example\n" for n in range(1_200))
FILE = "userType,externalId,name,email\n" + "".join(ROWS)


async def run(*arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tablebell_tools", "import", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def test_without_a_file_the_usage_is_printed() -> None:
    code, output, _ = await run()
    assert code == 2
    assert "make import FILE=people.csv DRY=1" in output


async def test_a_file_is_checked_imported_with_progress_and_imported_again(
    database: Database, pool: Pool, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(FILE)
    given = ("--file", str(file), "--url", database.url.get_secret_value())
    code, output, _ = await run(*given, "--dry-run")
    assert (code, output) == (
        0,
        "Dry run, nothing is changed. Without DRY=1, of 1,200 people: 1,200 created, 0 changed, 0 unchanged.\n",
    )
    code, output, errors = await run(*given)
    assert (code, output) == (0, "Done, 1,200 people: 1,200 created, 0 changed, 0 unchanged.\n")
    assert "1,200 of 1,200 people written" in errors
    assert await pool.fetchval("SELECT count(*) FROM customer WHERE external_id LIKE 'C-%'") == 1_200
    _, output, _ = await run(*given)
    assert output == "Done, 1,200 people: 0 created, 0 changed, 1,200 unchanged.\n"


async def test_problems_are_printed_by_line_and_nothing_is_imported(
    database: Database, pool: Pool, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    file.write_text("userType,name,email\ncustomer,Fine,fine@mail.example\ncustomer,Wrong,nonsense\n")
    code, output, _ = await run("--file", str(file), "--url", database.url.get_secret_value())
    assert code == 1
    assert "line 3: email: is not an e-mail address" in output
    assert "1 problems in 2 lines. Nothing was imported." in output
    assert await pool.fetchval("SELECT count(*) FROM customer WHERE name = 'Fine'") == 0


async def test_a_missing_file_is_reported_without_a_traceback(tmp_path: Path) -> None:
    code, _, errors = await run("--file", str(tmp_path / "none.csv"), "--url", "postgresql://nobody@127.0.0.1:1/none")
    assert code == 1
    assert "cannot be read" in errors
    assert "Traceback" not in errors
