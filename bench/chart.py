"""The ratios as a picture: how near each hop comes to its raw ceiling."""

from collections.abc import Mapping, Sequence
from html import escape

from bench.harness import Figure

ROW, LEFT, WIDTH = 22, 430, 360


def draw(figures: Mapping[str, Sequence[Figure]]) -> str:
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
