"""Every test that docs/security.md names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = re.compile(r"`([\w/.-]+\.py)(?:::(\w+))?`")


def test_the_tests_of_the_promises_exist() -> None:
    references = REFERENCE.findall((ROOT / "docs" / "security.md").read_text())
    assert len(references) > 20
    missing = [
        f"{path}::{name}"
        for path, name in references
        if not (ROOT / path).is_file() or f"def {name}" not in (ROOT / path).read_text()
    ]
    assert missing == []
