"""The figures as SVG charts: the ratio of each hop to its raw ceiling, and the latency of each hop."""

import math
import re
from collections.abc import Mapping, Sequence
from html import escape

from bench.harness import Figure

ROW, LEFT, WIDTH = 22, 430, 360

# The names of the figures of bench.system: "expanded, 20/s: p99".
ON_THE_WAY = re.compile(r"(?P<hop>[a-z ]+), (?P<rate>\d+)/s: (?P<which>p50|p99)")
SHORTEST, LONGEST = 1.0, 10_000.0


def draw_ratios(figures: Mapping[str, Sequence[Figure]]) -> str:
    """An SVG with a bar per figure that has a ceiling; the line is the ceiling."""
    rows = [(f"{hop}: {f.name}", f.ratio) for hop, measured in figures.items() for f in measured if f.ratio is not None]
    height = ROW * len(rows) + 40
    ceiling = LEFT + WIDTH * 2 / 3
    size = f'width="{LEFT + WIDTH + 60}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, (label, ratio) in enumerate(rows):
        top = 24 + number * ROW
        length = min(ratio, 1.5) / 1.5 * WIDTH
        parts.append(f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{top}" width="{length:.0f}" height="{ROW - 6}" rx="3" fill="#2a9d8f"/>')
        parts.append(f'<text x="{LEFT + length + 6:.0f}" y="{top + 13}">{ratio:.2f}</text>')
    parts.append(
        f'<line x1="{ceiling:.0f}" x2="{ceiling:.0f}" y1="16" y2="{height - 12}" stroke="#555" stroke-dasharray="4 3"/>'
        f'<text x="{ceiling:.0f}" y="12" text-anchor="middle" fill="#555">the raw ceiling of the same run</text></svg>'
    )
    return "\n".join(parts) + "\n"


def draw_latencies(figures: Sequence[Figure]) -> str:
    """An SVG with a bar per hop and rate: from p50 to p99, since the request, on a logarithmic scale."""
    times: dict[tuple[int, str], dict[str, float]] = {}
    for figure in figures:
        if found := ON_THE_WAY.fullmatch(figure.name):
            times.setdefault((int(found["rate"]), found["hop"]), {})[found["which"]] = figure.value
    left, height = 260, ROW * len(times) + 50
    size = f'width="{left + WIDTH + 150}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for tick in (1, 10, 100, 1_000, 10_000):
        x = left + _place(tick)
        parts.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="20" y2="{height - 12}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.0f}" y="14" text-anchor="middle" fill="#555">{tick:,} ms</text>')
    for number, ((rate, hop), at) in enumerate(times.items()):
        top, begin, end = 26 + number * ROW, left + _place(at["p50"]), left + _place(at["p99"])
        parts.append(f'<text x="{left - 8}" y="{top + 13}" text-anchor="end">{rate} a second: {escape(hop)}</text>')
        box = f'x="{begin:.0f}" y="{top}" width="{max(2.0, end - begin):.0f}" height="{ROW - 6}"'
        parts.append(f'<rect {box} rx="3" fill="#2a9d8f"/>')
        parts.append(f'<text x="{end + 6:.0f}" y="{top + 13}">{at["p50"]:,.0f} to {at["p99"]:,.0f} ms</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _place(milliseconds: float) -> float:
    within = min(max(milliseconds, SHORTEST), LONGEST)
    return WIDTH * math.log(within / SHORTEST) / math.log(LONGEST / SHORTEST)
