"""The import of people: all lines or none, problems by line, and the same file again."""

import time

import httpx
import pytest
import structlog

from reservation_api.management.changes import NOBODY
from reservation_api.management.people_import import PeopleImport
from tablebell.postgres import Pool, open_pool
from tablebell.testing import Database

from .conftest import Person

log = structlog.get_logger(__name__)

HEADER = "userType,externalId,name,email,phone,locale,timezone,role,restaurantId,agencyId\n"
FILE = (
    HEADER
    + "customer,C-1,Rosa Verdi,Rosa@mail.example,+39 333 111 2222,es,,,,7\n"
    + "RESTAURANT_USER,S-1,Ugo Blu,ugo@porto.example,,,,manager,10,\n"
    + "admin_user,,Ada Rossi,ada@tablebell.example,,,,read_only,,\n"
    + "agency_user,,Leo Gallo,leo@lanterna.example,,pt,Europe/Lisbon,,,7\n"
)


@pytest.fixture
def elena(person: Person) -> httpx.AsyncClient:
    return person("ADMIN_USER", 1)


async def send(client: httpx.AsyncClient, text: str | bytes, *, dry_run: bool = False) -> httpx.Response:
    content = text.encode() if isinstance(text, str) else text
    params = {"dryRun": "true"} if dry_run else {}
    return await client.post("/admin/import", content=content, params=params, headers={"Content-Type": "text/csv"})


async def people(pool: Pool) -> list[tuple[object, ...]]:
    rows = await pool.fetch(
        "SELECT user_type, user_id, external_id, name, email, phone, role FROM managed_person ORDER BY 1, 2"
    )
    return [tuple(row) for row in rows]


async def test_a_file_creates_people_of_all_types_and_again_changes_nothing(
    elena: httpx.AsyncClient, pool: Pool
) -> None:
    before = await people(pool)
    counts = {"rows": 4, "created": 4, "changed": 0, "unchanged": 0, "problems": []}
    assert (await send(elena, FILE, dry_run=True)).json() == {"dryRun": True, **counts}
    assert await people(pool) == before, "a dry run changes nothing"
    assert (await send(elena, FILE)).json() == {"dryRun": False, **counts}
    added = [row for row in await people(pool) if row not in before]
    assert [(row[0], row[2], row[3], row[4], row[5], row[6]) for row in added] == [
        ("ADMIN_USER", None, "Ada Rossi", "ada@tablebell.example", None, "READ_ONLY"),
        ("AGENCY_USER", None, "Leo Gallo", "leo@lanterna.example", None, None),
        ("CUSTOMER", "C-1", "Rosa Verdi", "Rosa@mail.example", "+393331112222", None),
        ("RESTAURANT_USER", "S-1", "Ugo Blu", "ugo@porto.example", None, "MANAGER"),
    ]
    again = (await send(elena, FILE)).json()
    assert (again["created"], again["changed"], again["unchanged"]) == (0, 0, 4)
    changes = (await elena.get("/admin/changes")).json()["items"]
    assert [(one["act"], one["actorId"]) for one in changes] == [("CREATE", 1)] * 4


async def test_a_person_is_found_by_external_id_or_else_by_email_and_empty_cells_change_nothing(
    elena: httpx.AsyncClient, pool: Pool
) -> None:
    await send(elena, FILE)
    changed = (
        "user_type;external_id;name;email;phone;locale\n"
        "customer;C-1;Rosa Neri;new@mail.example;;\n"
        "customer;C-5;Anna Bianchi;ANNA.bianchi@mail.example;;en\n"
    )
    result = (await send(elena, b"\xef\xbb\xbf" + changed.encode())).json()
    assert (result["created"], result["changed"]) == (0, 2)
    rosa = await pool.fetchrow("SELECT name, email, phone, locale, agency_id FROM customer WHERE external_id = 'C-1'")
    assert rosa is not None
    assert tuple(rosa) == ("Rosa Neri", "new@mail.example", "+393331112222", "es", 7)
    anna = await pool.fetchrow("SELECT external_id, locale, phone, fcm_token FROM customer WHERE id = 5")
    assert anna is not None
    assert tuple(anna) == ("C-5", "en", "+393330000005", "demo-fcm-token-5")
    (one,) = (await elena.get("/admin/changes", params={"subjectType": "CUSTOMER", "subjectId": 5})).json()["items"]
    assert one["before"] == {"externalId": None, "email": "anna.bianchi@mail.example", "locale": "it"}


async def test_every_problem_is_listed_by_line_and_nothing_is_imported(elena: httpx.AsyncClient, pool: Pool) -> None:
    before = await people(pool)
    text = (
        HEADER
        + "customer,,Fine,fine@mail.example,,,,,,\n"
        + "waiter,,Bad type,x@mail.example,,,,,,\n"
        + "customer,,,noname@mail.example,,,,,,\n"
        + "customer,,Bad mail,nonsense,12,de,Rome,,,\n"
        + "customer,,No address,,,,,,,\n"
        + "customer,,Same,FINE@mail.example,,,,,,\n"
        + "customer,,Taken,new@mail.example,+393330000005,,,,,\n"
        + "restaurant_user,,No restaurant,a@mail.example,,,,,4711,\n"
        + "restaurant_user,,None,b@mail.example,,,,,,\n"
        + "customer,,Short,c@mail.example\n"
        + "\n"
        + 'customer,,"Two\nlines",d@mail.example,,,,staff,,\n'
    )
    listed = (await send(elena, text, dry_run=True)).json()["problems"]
    assert [(one["line"], one["field"]) for one in listed] == [
        (3, "userType"),
        (4, "name"),
        (5, "email"),
        (5, "phone"),
        (5, "locale"),
        (5, "timezone"),
        (6, "email"),
        (7, "email"),
        (8, "phone"),
        (9, "restaurantId"),
        (10, "restaurantId"),
        (11, "file"),
        (14, "name"),
    ]
    messages = {(one["line"], one["field"]): one["message"] for one in listed}
    assert messages[7, "email"] == "Line 2 has the same email."
    assert messages[8, "phone"] == "Person 5 has the same phone."
    refused = await send(elena, text)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "line 3: userType"
    assert len(refused.json()["errors"]) == len(listed)
    assert await people(pool) == before


async def test_a_wrong_header_or_file_is_refused_with_the_reason(elena: httpx.AsyncClient) -> None:
    for content, field, message in (
        ("", "name", "The column is missing."),
        ("userType,name,colour\n", "colour", "The column is not known."),
        ("userType,name,name\n", "name", "The column occurs twice."),
        (b"userType,name\ncustomer,Andal\xf2\n", "file", "The file is not UTF-8."),
        ('userType,name\ncustomer,"open\n', "file", "The line is not valid CSV: unexpected end of data."),
    ):
        problems = (await send(elena, content, dry_run=True)).json()["problems"]
        assert (field, message) in [(one["field"], one["message"]) for one in problems], content
    too_large = await send(elena, b"x" * 1_048_577)
    assert too_large.status_code == 413
    wrong_type = await elena.post("/admin/import", json={"a": 1})
    assert wrong_type.status_code == 415
    assert "text/csv" in wrong_type.json()["detail"]


async def test_ten_thousand_people_are_imported_and_changed_with_progress(database: Database, pool: Pool) -> None:
    rows = (f"customer,E-{n},Guest {n},guest{n}@mail.example,+39340{n:07},en,,,,7" for n in range(10_000))
    content = (HEADER + "\n".join(rows)).encode()
    steps: list[tuple[str, int, int]] = []
    async with open_pool(database.url_of("reservation_api"), "test", 2) as own:
        people_import = PeopleImport(own)
        for changed in (content, content.replace(b",en,", b",es,")):
            began = time.monotonic()
            result = await people_import.run(changed, NOBODY, dry_run=False, progress=lambda *step: steps.append(step))
            seconds = time.monotonic() - began
            log.info("imported", seconds=round(seconds, 1), created=result.created, changed=result.changed)
            assert seconds < 60, "2 s on an idle machine: a plan compares every row with every key"
    assert await pool.fetchval("SELECT count(*) FROM customer WHERE locale = 'es' AND agency_id = 7") == 10_000
    assert await pool.fetchval("SELECT count(*) FROM management_change WHERE actor_id IS NULL") == 20_000
    for last in (("checked", 10_000, 10_000), ("written", 10_000, 10_000)):
        assert steps.count(last) == 2
