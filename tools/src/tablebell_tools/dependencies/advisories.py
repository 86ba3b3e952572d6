"""Known vulnerabilities of packages: the list `tools/advisories.json`, and its refresh from OSV (osv.dev)."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import httpx
from packaging.version import Version

from tablebell_tools.dependencies.lock import Package

OSV_URL = "https://api.osv.dev"


@dataclass(frozen=True, slots=True)
class Advisory:
    id: str
    package: str
    introduced: str
    fixed: str | None
    """The first version without the fault; None if there is none."""
    summary: str

    def affects(self, package: Package) -> bool:
        version = Version(package.version)
        return (
            self.package == package.name
            and version >= Version(self.introduced)
            and (self.fixed is None or version < Version(self.fixed))
        )


@dataclass(frozen=True, slots=True)
class AdvisoryList:
    date: date
    source: str
    advisories: Sequence[Advisory]


def read_advisories(file: Path) -> AdvisoryList:
    content = json.loads(file.read_text(encoding="utf-8"))
    advisories = [Advisory(**each) for each in content["advisories"]]
    return AdvisoryList(date.fromisoformat(content["date"]), content["source"], advisories)


def write_advisories(file: Path, found: AdvisoryList) -> None:
    content = {
        "date": found.date.isoformat(),
        "source": found.source,
        "advisories": [asdict(each) for each in found.advisories],
    }
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def download_advisories(packages: Sequence[Package], url: str = OSV_URL) -> AdvisoryList:
    """All advisories of these packages, whatever their versions: the list stays useful when the lock changes."""
    found: list[Advisory] = []
    with httpx.Client(base_url=url, timeout=30) as http:
        for package in packages:
            query: dict[str, Any] = {"package": {"name": package.name, "ecosystem": "PyPI"}}
            while True:
                page = http.post("/v1/query", json=query).raise_for_status().json()
                found += [each for fault in page.get("vulns", ()) for each in _advisories(fault, package.name)]
                if not page.get("next_page_token"):
                    break
                query["page_token"] = page["next_page_token"]
    ordered = sorted(set(found), key=lambda each: (each.package, each.id, each.introduced))
    return AdvisoryList(date.today(), url, ordered)  # noqa: DTZ011 - a day is exact enough


def _advisories(fault: dict[str, Any], package: str) -> Iterator[Advisory]:
    """One per range of affected versions. Faults that were withdrawn are left out."""
    if "withdrawn" in fault:
        return
    summary = fault.get("summary") or fault.get("details", "").partition("\n")[0]
    for affected in fault.get("affected", ()):
        for versions in affected.get("ranges", ()):
            if affected["package"]["name"].lower() != package or versions["type"] != "ECOSYSTEM":
                continue
            introduced: str | None = None
            for event in versions["events"]:
                if "introduced" in event:
                    introduced = event["introduced"]
                elif "fixed" in event and introduced is not None:
                    yield Advisory(fault["id"], package, introduced, event["fixed"], summary[:200])
                    introduced = None
            if introduced is not None:
                yield Advisory(fault["id"], package, introduced, None, summary[:200])
