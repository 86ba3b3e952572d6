"""Loads SQL files. A block starts with a line like `-- name: claim`; a store has one function per block. Pure."""

import re
from collections.abc import Mapping
from importlib.resources import files

NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


def load_queries(package: str, *path: str) -> Mapping[str, str]:
    """The blocks of a file in a package, by name."""
    resource = files(package).joinpath(*path)
    return parse_queries(resource.read_text(encoding="utf-8"), str(resource))


def parse_queries(text: str, source: str) -> dict[str, str]:
    # split returns the text before the first name, then name, block, name, block, …
    _, *parts = NAME.split(text)
    queries: dict[str, str] = {}
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        if name in queries:
            raise ValueError(f"{source} has two queries named {name}")
        queries[name] = block.strip()
    return queries
