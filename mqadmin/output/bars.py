"""Horizontal bars and a line of blocks: a distribution and a course over time as text."""

from collections.abc import Sequence
from itertools import pairwise

BAR_WIDTH = 50
BLOCKS = "▁▂▃▄▅▆▇█"
EIGHTHS = " ▏▎▍▌▋▊▉"


def bars(rows: Sequence[tuple[str, int]], *, width: int = BAR_WIDTH) -> list[str]:
    """Return one line per row: label, bar, count; the largest count fills ``width`` cells."""
    most = max((count for _, count in rows), default=0)
    labels = max((len(label) for label, _ in rows), default=0)
    counts = max((len(str(count)) for _, count in rows), default=0)
    lines = []
    for label, count in rows:
        drawn = bar(count, most, width=width)
        lines.append(f"{label:>{labels}}  {count:>{counts}}  {drawn}".rstrip())
    return lines


def bar(count: int, most: int, *, width: int = BAR_WIDTH) -> str:
    """Return the bar of one count; the count ``most`` fills ``width`` cells, 0 none."""
    eighths = round(count * width * 8 / most) if most else 0
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def course(values: Sequence[int], *, width: int = BAR_WIDTH) -> str:
    """Return one character per value, its height relative to the largest.

    More values than ``width`` are averaged.
    """
    if not values:
        return ""
    if len(values) > width:
        edges = [round(number * len(values) / width) for number in range(width + 1)]
        parts = [values[a:b] for a, b in pairwise(edges)]
        values = [sum(part) // len(part) for part in parts]
    most = max(values) or 1
    return "".join(BLOCKS[round(value * (len(BLOCKS) - 1) / most)] for value in values)
