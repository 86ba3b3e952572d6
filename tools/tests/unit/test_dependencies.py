"""The check of uv.lock, and the refresh of the list of vulnerabilities."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tablebell_tools.dependencies.advisories import (
    Advisory,
    download_advisories,
    read_advisories,
    write_advisories,
)
from tablebell_tools.dependencies.command import (
    ADVISORIES,
    LOCK,
    REGISTRY,
    find_unlicensed,
    find_unpinned,
    find_vulnerable,
    write_sbom,
)
from tablebell_tools.dependencies.lock import Package, read_lock

FILES = ["https://files.pythonhosted.org/h11-0.15.0-py3-none-any.whl"]
H11 = Package("h11", "0.15.0", REGISTRY, FILES, ["sha256:00"])
FAULT = Advisory("CVE-2025-43859", "h11", "0.10", "0.16.0", "Malformed chunked bodies are accepted")


def test_the_lock_has_every_package_except_the_members_of_the_workspace() -> None:
    names = {package.name for package in read_lock(LOCK)}
    assert {"asyncpg", "fastapi", "pytest"} <= names
    assert not {name for name in names if name.startswith("tablebell")}


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        (Package("h11", "0.15.0", REGISTRY, FILES, []), "without a hash"),
        (Package("h11", "0.15.0", REGISTRY, [], []), "without a hash"),
        (Package("h11", "0.15.0", None, FILES, ["sha256:00"]), "is not from"),
        (Package("h11", "0.15.0", "https://other.example/simple", FILES, ["sha256:00"]), "is not from"),
    ],
)
def test_a_package_without_a_hash_or_from_elsewhere_is_reported(package: Package, problem: str) -> None:
    (found,) = find_unpinned([package])
    assert problem in found
    assert list(find_unpinned([H11])) == []


@pytest.mark.parametrize(
    ("version", "vulnerable"),
    [("0.9", False), ("0.10", True), ("0.15.0", True), ("0.16.0", False), ("0.16.0rc1", True)],
)
def test_a_version_in_the_range_of_an_advisory_is_reported(version: str, vulnerable: bool) -> None:
    package = Package("h11", version, REGISTRY, FILES, ["sha256:00"])
    assert bool(list(find_vulnerable([package], [FAULT]))) is vulnerable


def test_an_advisory_without_a_fix_affects_all_later_versions() -> None:
    (found,) = find_vulnerable([H11], [Advisory("X-1", "h11", "0", None, "no fix yet")])
    assert found == "h11 0.15.0: X-1, no fixed version: no fix yet"


def test_a_licence_that_is_not_allowed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(find_unlicensed([H11])) == []
    monkeypatch.setattr("tablebell_tools.dependencies.command.ALLOWED", frozenset({"Apache-2.0"}))
    (found,) = find_unlicensed([H11])
    assert found == "h11 0.15.0 has a licence that is not allowed: MIT"


@contextmanager
def osv(answers: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """A server with OSV's API: the pages of answers for each package."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            pages = answers.get(query["package"]["name"], [{}])
            body = json.dumps(pages[int(query.get("page_token", 0))]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fault(name: str, *events: dict[str, str], **fields: Any) -> dict[str, Any]:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}]
    return {"id": name, "summary": name, "affected": [{"package": {"name": "h11"}, "ranges": ranges}], **fields}


def test_a_refresh_replaces_the_list_with_the_ranges_of_osv(tmp_path: Path) -> None:
    pages: list[dict[str, Any]] = [
        {"vulns": [fault("A", {"introduced": "0"}, {"fixed": "1"}, {"introduced": "2"})], "next_page_token": "1"},
        {"vulns": [fault("B", {"introduced": "3"}, {"fixed": "4"}), fault("C", {"introduced": "0"}, withdrawn="2026")]},
    ]
    with osv({"h11": pages}) as url:
        found = download_advisories([H11, Package("attrs", "1", REGISTRY, [], [])], url)
    file = tmp_path / "advisories.json"
    write_advisories(file, found)
    assert read_advisories(file) == found
    assert [(each.id, each.introduced, each.fixed) for each in found.advisories] == [
        ("A", "0", "1"),
        ("A", "2", None),
        ("B", "3", "4"),
    ]


def test_the_list_in_the_repository_is_readable_and_about_locked_packages() -> None:
    known = read_advisories(ADVISORIES).advisories
    assert {each.package for each in known} <= {package.name for package in read_lock(LOCK)}
    assert len(known) > 10


def test_the_bill_of_materials_lists_what_the_services_need_and_no_test_tools(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    write_sbom(file)
    content = json.loads(file.read_text())
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.5")
    locked = {package.name: package.version for package in read_lock(LOCK)}
    listed = {each["name"]: each["version"] for each in content["components"] if each["name"] in locked}
    assert listed["fastapi"] == locked["fastapi"]
    assert "aio-pika" in listed
    assert "pytest" not in listed
    assert {name: locked[name] for name in listed} == listed
