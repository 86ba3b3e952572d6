"""Every SQL block of the repository has a caller in production code. Tests do not count."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tablebell.sqlfile import parse_queries

ROOT = Path(__file__).parents[3]
SOURCES = [
    folder
    for pattern in ("shared/src", "services/*/src", "deploy/*/src", "tools", "chaos")
    for folder in sorted(ROOT.glob(pattern))
]
TEST_FOLDERS = {"tests", "testing"}


def files(suffix: str) -> list[Path]:
    found = (path for folder in SOURCES for path in sorted(folder.rglob(f"*{suffix}")))
    return [path for path in found if not TEST_FOLDERS.intersection(path.relative_to(ROOT).parts)]


def blocks() -> Iterator[tuple[Path, str]]:
    for path in files(".sql"):
        if "sql" in path.relative_to(ROOT).parts:
            for name in parse_queries(path.read_text(encoding="utf-8"), str(path)):
                yield path, name


def package_of(path: Path) -> Path:
    """The package that loads this SQL file: the folder that contains `sql`."""
    return next(parent.parent for parent in path.parents if parent.name == "sql")


class Uses(ast.NodeVisitor):
    """The strings and names in a module, each with the functions around it."""

    def __init__(self, module: ast.Module) -> None:
        self.strings: list[tuple[str, list[str]]] = []
        self.names: list[tuple[str, list[str]]] = []
        self._functions: list[str] = []
        self.visit(module)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._functions.append(node.name)
        self.generic_visit(node)
        self._functions.pop()

    visit_FunctionDef = visit_AsyncFunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.append((node.value, [*self._functions]))

    def visit_Name(self, node: ast.Name) -> None:
        self.names.append((node.id, [*self._functions]))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        receiver = ast.unparse(node.value)
        if "store" in receiver or "outbox" in receiver:
            self.names.append((node.attr, [*self._functions]))
        self.generic_visit(node)


USES = {path: Uses(ast.parse(path.read_text(encoding="utf-8"))) for path in files(".py")}


def is_used(sql_file: Path, block: str) -> bool:
    """Whether the block is used by name. A store function of its name counts only if something else calls it."""
    users = {
        (path, block in functions)
        for path, uses in USES.items()
        if path.is_relative_to(package_of(sql_file))
        for string, functions in uses.strings
        if string == block
    }
    stores = {path for path, by_its_function in users if by_its_function}
    return len(stores) < len(users) or any(
        name == block and not (path in stores and block in functions)
        for path, uses in USES.items()
        if stores
        for name, functions in uses.names
    )


def test_every_sql_block_has_a_caller() -> None:
    found = list(blocks())
    assert len(found) > 100, "the test does not find the SQL files"
    assert [f"{path.relative_to(ROOT)}: {block}" for path, block in found if not is_used(path, block)] == []


def test_a_store_function_that_nobody_calls_is_no_caller() -> None:
    store = Uses(ast.parse('async def purge_marks(c):\n    return await c.fetch(SQL["purge_marks"])\n'))
    assert store.strings == [("purge_marks", ["purge_marks"])]
    assert all("purge_marks" in functions for _, functions in store.names)
