"""The licences of the installed packages, from their metadata."""

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

# LGPL: psycopg, which is used unmodified and only by the migrations. MPL: certifi, orjson, hypothesis, pathspec.
ALLOWED = frozenset(
    {
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "LGPL-3.0-only",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Unlicense",
    }
)
# The words of packages that do not use SPDX identifiers.
IDENTIFIERS = {
    "MIT License": "MIT",
    "Apache": "Apache-2.0",  # vobject
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def licences(name: str) -> set[str] | None:
    """SPDX identifiers, or the package's own words; None if the package is not installed on this platform."""
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return None
    stated = str(found.metadata.json.get("license_expression") or found.metadata.json.get("license") or "")
    # Each licence of an expression must be allowed, also those of which one may be chosen.
    names = re.split(r"\s+(?:OR|AND)\s+", stated.replace("(", "").replace(")", "")) if stated else _classified(found)
    return {IDENTIFIERS.get(name, name) for name in names} or {"no licence"}


def _classified(found: Distribution) -> list[str]:
    classifiers = found.metadata.get_all("Classifier") or []
    return [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: OSI Approved :: ")]
