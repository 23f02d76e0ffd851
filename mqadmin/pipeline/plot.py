"""Results as charts: bars of what there is, lines of what changes over time."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from broker.errors import ConfigError
from mqadmin.pipeline.picture import Line, Picture, Rectangle, Shape, Words, write_picture

WIDTH: Final = 960
BAR: Final = 22
MOST_BARS: Final = 30
MOST_LINES: Final = 8
PLOT_HEIGHT: Final = 360
LEFT: Final = 70
RIGHT: Final = 24
TOP: Final = 56
LABEL_CHARACTERS: Final = 34
# Colours that people with any eyes tell apart (after Okabe and Ito), the last for "others".
COLORS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d1f", "#4d4d4d"),
    "#b0b0b0",
)
GRID: Final = "#e4e4e4"
INK: Final = "#333333"
SOFT: Final = "#777777"

Row = dict[str, Any]


class Series(msgspec.Struct, kw_only=True):
    """A line: its name and its points (time in ms, value)."""

    name: str
    points: list[tuple[int, float]]


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """A row of bars: its label and a value per colour."""

    label: str
    values: list[float]


def draw(job: str, table: str, rows: Sequence[Row], path: str) -> None:
    """Draw the rows of a job's table into a file. ConfigError where there is nothing to draw."""
    if not rows:
        raise ConfigError(f"job {job}: no rows, nothing to draw")
    made = {"traffic": traffic, "lag-history": lag, "latency": latency}.get(job)
    if made is None or table not in ("traffic", "lag", "groups", "stored"):
        raise ConfigError(f"table {table} of job {job} cannot be drawn", "leave --table out")
    write_picture(made(rows), path)


def traffic(rows: Sequence[Row]) -> Picture:
    """Bytes by group, or by group and time."""
    if rows[0].get("bucketTimestamp") is not None:
        series = gathered(rows, "bucketTimestamp", "bytes", ("topic", "tag", "queueId"))
        return lines("Bytes stored", series, "bytes")
    names = ("store", "topic", "tag", "queueId", "producerHost")
    found = [Bars(label=label(row, names), values=[row["bytes"]]) for row in rows]
    return bars("Bytes stored", found, ["bytes"], "bytes")


def lag(rows: Sequence[Row]) -> Picture:
    """Messages behind, by group and topic over time."""
    series = gathered(rows, "snapshotTimestamp", "lag", ("group", "topic"))
    return lines("Lag of consumer groups", series, "messages")


def latency(rows: Sequence[Row]) -> Picture:
    """Milliseconds from born to stored."""
    if rows[0].get("bucketTimestamp") is not None:
        series = gathered(rows, "bucketTimestamp", "p99Ms", ("topic", "producerHost"), most=max)
        return lines("Born to stored, 99 %", series, "ms")
    names = ("store", "topic", "producerHost")
    shares = ("p50Ms", "p90Ms", "p99Ms")
    found = [
        Bars(label=label(row, names), values=[row[share] or 0 for share in shares]) for row in rows
    ]
    found.sort(key=lambda one: -one.values[-1])
    return bars("Born to stored", found, ["50 %", "90 %", "99 %"], "ms")


def label(row: Row, names: Sequence[str]) -> str:
    """The words of a row that say what it is about."""
    words = [str(row[name]) for name in names if row.get(name) is not None]
    return " ".join(words) or "all"


def gathered(
    rows: Sequence[Row], time: str, value: str, names: Sequence[str], *, most: Any = sum
) -> list[Series]:
    """A series per group, the largest first; the small ones as "others".

    Values of one group and time are added up, or the largest is taken (``most``).
    """
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.get(value) is not None:
            points = found.setdefault(label(row, names), {})
            points.setdefault(row[time], []).append(row[value])
    sums = {name: {at: most(v) for at, v in points.items()} for name, points in found.items()}
    order = sorted(sums, key=lambda name: (-sum(sums[name].values()), name))
    kept = order if len(order) <= MOST_LINES + 1 else order[:MOST_LINES]
    series = [Series(name=name, points=sorted(sums[name].items())) for name in kept]
    rest: dict[int, list[float]] = {}
    for name in order[len(kept) :]:
        for at, one in sums[name].items():
            rest.setdefault(at, []).append(one)
    if rest:
        others = sorted((at, most(values)) for at, values in rest.items())
        series.append(Series(name=f"{len(order) - len(kept)} others", points=others))
    return series


# ---- charts


def bars(title: str, rows: Sequence[Bars], legend: Sequence[str], unit: str) -> Picture:
    """Horizontal bars, at most MOST_BARS of them."""
    shown = rows[:MOST_BARS]
    left = 24 + 7.5 * min(max(len(row.label) for row in shown), LABEL_CHARACTERS)
    thick = BAR if len(legend) == 1 else BAR / 2
    step = thick * len(legend) + 8
    ticks = nice_ticks(max(max(row.values) for row in shown), unit)
    scale = (WIDTH - left - RIGHT - 70) / (ticks[-1] or 1)
    height = int(TOP + step * len(shown) + 56)
    shapes: list[Shape] = [Words(x=24, y=30, text=title, size=17, color=INK)]
    for tick in ticks:
        x = left + tick * scale
        shapes.append(Rectangle(x=x, y=TOP - 6, width=1, height=height - TOP - 34, color=GRID))
        shapes.append(
            Words(x=x, y=height - 24, text=number(tick, unit), anchor="middle", color=SOFT, size=11)
        )
    for place, row in enumerate(shown):
        y = TOP + place * step
        text = row.label if len(row.label) <= LABEL_CHARACTERS else row.label[:33] + "~"
        middle = y + thick * len(legend) / 2 + 4
        shapes.append(Words(x=left - 8, y=middle, text=text, anchor="end", color=INK))
        for at, value in enumerate(row.values):
            top, long = y + at * thick, max(value, 0) * scale
            note = f"{row.label}: {legend[at]} {number(value, unit)}"
            shapes.append(
                Rectangle(x=left, y=top, width=long, height=thick - 2, color=COLORS[at], note=note)
            )
            shapes.append(
                Words(
                    x=left + long + 5,
                    y=top + thick - 6,
                    text=number(value, unit),
                    size=11,
                    color=SOFT,
                )
            )
    if len(rows) > len(shown):
        text = f"{len(rows) - len(shown)} more are not shown"
        shapes.append(Words(x=24, y=height - 6, text=text, size=11, color=SOFT))
    if len(legend) > 1:
        shapes += legend_shapes(legend, WIDTH - RIGHT - 70 * len(legend), 26, 70)
    return Picture(width=WIDTH, height=height, title=title, shapes=shapes)


def lines(title: str, series: Sequence[Series], unit: str) -> Picture:
    """Lines over time, one per series."""
    times = sorted({at for one in series for at, _ in one.points})
    first, last = times[0], times[-1]
    ticks = nice_ticks(max(value for one in series for _, value in one.points), unit)
    wide = WIDTH - LEFT - RIGHT
    across = wide / ((last - first) or 1)
    down = PLOT_HEIGHT / (ticks[-1] or 1)
    bottom = TOP + PLOT_HEIGHT
    shapes: list[Shape] = [Words(x=24, y=30, text=title, size=17, color=INK)]
    for tick in ticks:
        y = bottom - tick * down
        shapes.append(Rectangle(x=LEFT, y=y, width=wide, height=1, color=GRID))
        shapes.append(
            Words(x=LEFT - 8, y=y + 4, text=number(tick, unit), anchor="end", color=SOFT, size=11)
        )
    for part in range(6):
        at = first + (last - first) * part // 5
        x = LEFT + (at - first) * across
        anchor = "start" if part == 0 else ("end" if part == 5 else "middle")
        if part == 0 or last > first:
            shapes.append(
                Words(
                    x=x,
                    y=bottom + 20,
                    text=clock(at, last - first),
                    anchor=anchor,
                    size=11,
                    color=SOFT,
                )
            )
    for place, one in enumerate(series):
        points = [(LEFT + (at - first) * across, bottom - value * down) for at, value in one.points]
        color = COLORS[min(place, len(COLORS) - 1)]
        if len(points) > 1:
            shapes.append(Line(points=points, color=color, note=one.name))
        for (x, y), (at, value) in zip(points, one.points, strict=True):
            note = f"{one.name}, {clock(at, 0)}: {number(value, unit)}"
            shapes.append(Rectangle(x=x - 2, y=y - 2, width=4, height=4, color=color, note=note))
    names = [one.name for one in series]
    below = bottom + 34
    for at in range(0, len(names), 2):
        shapes += legend_shapes(names[at : at + 2], LEFT, below + 20 * (at // 2), 430, first=at)
    height = int(below + 20 * math.ceil(len(names) / 2) + 16)
    return Picture(width=WIDTH, height=height, title=title, shapes=shapes)


def legend_shapes(
    names: Sequence[str], x: float, y: float, step: float, *, first: int = 0
) -> list[Shape]:
    """Coloured squares with names, side by side."""
    shapes: list[Shape] = []
    for place, name in enumerate(names):
        left = x + place * step
        color = COLORS[min(first + place, len(COLORS) - 1)]
        shapes.append(Rectangle(x=left, y=y - 9, width=10, height=10, color=color))
        shapes.append(Words(x=left + 15, y=y, text=name[:56], size=11, color=INK))
    return shapes


def nice_ticks(most: float, unit: str = "") -> list[float]:
    """From 0 in round steps to at least ``most``, about five of them; round in the unit shown."""
    if most <= 0:
        return [0, 1]
    if unit == "bytes" and most >= 1024:
        whole = 1024 ** min(int(math.log(most, 1024)), 4)
        return [tick * whole for tick in nice_ticks(most / whole)]
    rough = most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= rough)
    count = math.ceil(most / step - 1e-9)
    return [round(step * at, 10) for at in range(count + 1)]


def number(value: float, unit: str) -> str:
    """A value for people: bytes in powers of 1024, the others in powers of 1000."""
    base = 1024 if unit == "bytes" else 1000
    ends = ("B", "KiB", "MiB", "GiB", "TiB") if unit == "bytes" else ("", "k", "M", "G", "T")
    size, place = float(value), 0
    while abs(size) >= base and place < len(ends) - 1:
        size, place = size / base, place + 1
    text = f"{size:.1f}".removesuffix(".0")
    end = ends[place]
    if unit == "ms":
        end += " ms"
    return f"{text} {end.strip()}".strip()


def clock(ms: int, span_ms: int) -> str:
    """A time in UTC, as exact as a span needs; 0 asks for all of it."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    if span_ms == 0:
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    return moment.strftime("%m-%d %H:%M" if span_ms > 86_400_000 else "%H:%M:%S")
