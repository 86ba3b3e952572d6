"""Prints the figures as a table, and writes them as JSON."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.chart import draw_latencies, draw_ratios
from bench.harness import Figure

RESULTS = Path(__file__).parent / "results"


def show(figures: Mapping[str, Sequence[Figure]]) -> None:
    table = Table(title=f"Tablebell on {machine()}", title_justify="left")
    for column, justify in (("hop", "left"), ("figure", "left"), ("value", "right"), ("ceiling", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for column in ("ratio", "bar", ""):
        table.add_column(column)
    for hop, measured in figures.items():
        for figure in measured:
            table.add_row(hop, figure.name, *cells(figure))
    Console(width=None if Console().is_terminal else 140).print(table)


def cells(figure: Figure) -> tuple[str, ...]:
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    ceiling = f"{figure.ceiling:,.4g}" if figure.ceiling is not None else ""
    result = {True: "ok", False: "MISSED", None: ""}[figure.ok]
    return f"{figure.value:,.4g} {figure.unit}", ceiling, ratio, figure.bar, result


def write(figures: Mapping[str, Sequence[Figure]]) -> Path:
    """Write one file per hop, with its newest run, and the charts."""
    RESULTS.mkdir(exist_ok=True)
    if len(figures) > 1:
        (RESULTS / "ratios.svg").write_text(draw_ratios(figures))
    if "system" in figures:
        (RESULTS / "latencies.svg").write_text(draw_latencies(figures["system"]))
    for hop, measured in figures.items():
        content = {
            "command": f"make bench ONLY={hop}",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "figures": [{**asdict(figure), "ratio": figure.ratio} for figure in measured],
        }
        (RESULTS / f"{hop}.json").write_text(json.dumps(content, indent=2) + "\n")
    return RESULTS


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
