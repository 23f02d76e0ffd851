"""Charts of job results as SVG, HTML or PNG: bars by group, lines over time.

The charts are drawn by matplotlib (extra ``plot``). plotly is half its size on disk, but needs a
browser to write PNG files. SVG and HTML files contain their text as text, show values as tooltips
and load nothing from the network.
"""

import errno
import importlib.util
import io
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import msgspec

from broker.errors import ConfigError, DiskFullError
from mqadmin.pipeline.sinks.atomic_file import write_atomically

SUFFIXES: Final = (".png", ".svg", ".html")
MAX_BARS: Final = 30
MAX_LINES: Final = 8
MAX_LABEL: Final = 34  # characters
WIDTH_INCHES: Final = 9.6
PNG_DPI: Final = 200
# Distinguishable with colour vision deficiencies (Okabe and Ito); grey is for "others".
COLORS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d1f", "#4d4d4d"),
    "#b0b0b0",
)
_SYMBOLS: Final = {
    "bytes": (1024, ("B", "KiB", "MiB", "GiB", "TiB")),
    "ms": (1000, ("ms", "s")),
}
_SVG: Final = "http://www.w3.org/2000/svg"

Row = dict[str, Any]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A line: its name and its points (epoch ms, value)."""

    name: str
    points: list[tuple[int, float]]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A group of bars: its label, and one value per entry of the legend."""

    label: str
    values: list[float]


class BarChart(msgspec.Struct, frozen=True, kw_only=True):
    """Horizontal bars from top to bottom; ``omitted`` counts bars beyond MAX_BARS."""

    title: str
    unit: str
    legend: list[str]
    bars: list[Bar]
    omitted: int = 0


class LineChart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over time."""

    title: str
    unit: str
    series: list[Series]


Chart = BarChart | LineChart


def check_plot_path(path: str) -> None:
    """Check before a run that a chart can be written to ``path``.

    ConfigError for an unknown suffix, a directory that is missing or not writable, or without
    matplotlib.
    """
    if Path(path).suffix not in SUFFIXES:
        raise ConfigError(f"{path}: unknown picture format", "end it in .png, .svg or .html")
    folder = Path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{path}: {folder} is not a writable directory")
    try:
        spec = importlib.util.find_spec("matplotlib")
    except ValueError:  # sys.modules["matplotlib"] is None
        spec = None
    if spec is None:
        raise ConfigError(
            "--plot needs matplotlib, which is not installed", "pip install 'mqadmin[plot]'"
        )


def draw(job: str, table: str, rows: Sequence[Row], path: str) -> None:
    """Draw the rows of a job's table to a file.

    ConfigError for a table without a chart, without rows, or as :func:`check_plot_path`.
    """
    if not rows:
        raise ConfigError(f"job {job}: no rows to draw")
    make = _CHARTS.get((job, table))
    if make is None:
        raise ConfigError(f"table {table} of job {job} cannot be drawn", "omit --table")
    check_plot_path(path)
    _write(Path(path), make(rows))


def draw_statistics(by: str, rows: Sequence[Row], path: str) -> None:
    """Draw the rows of ``store stats`` to a file: messages by size, else bytes by value.

    ConfigError without rows, or as :func:`check_plot_path`.
    """
    if not rows:
        raise ConfigError("store stats: no rows to draw")
    check_plot_path(path)
    measure, unit = ("messages", "messages") if by == "size" else ("bytes", "bytes")
    bars = [Bar(label=row["value"] or "-", values=[row[measure]]) for row in rows]
    chart = _bar_chart(f"{measure.capitalize()} by {by}", unit, [measure], bars)
    _write(Path(path), chart)


def _write(path: Path, chart: Chart) -> None:
    try:
        write_atomically(path, render(chart, path.suffix))
    except OSError as error:
        message, hint = f"cannot write {path}: {error.strerror}", "name another file"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError(message, f"free disk space, or {hint}", path=str(path)) from error
        raise ConfigError(message, hint) from error


# ---- results as charts


def traffic_chart(rows: Sequence[Row]) -> Chart:
    """Chart bytes by group, or by group and time."""
    if rows[0].get("bucketTimestamp") is not None:
        series = group_series(rows, "bucketTimestamp", "bytes", ("topic", "tag", "queueId"))
        return LineChart(title="Bytes stored", unit="bytes", series=series)
    names = ("store", "topic", "tag", "queueId", "producerHost")
    bars = [Bar(label=label_of(row, names), values=[row["bytes"]]) for row in rows]
    return _bar_chart("Bytes stored", "bytes", ["bytes"], bars)


def lag_chart(rows: Sequence[Row]) -> Chart:
    """Chart lag in messages by group and topic over time."""
    series = group_series(rows, "snapshotTimestamp", "lag", ("group", "topic"))
    return LineChart(title="Lag of consumer groups", unit="messages", series=series)


def latency_chart(rows: Sequence[Row]) -> Chart:
    """Chart percentiles of the milliseconds from born to store time."""
    if rows[0].get("bucketTimestamp") is not None:
        names = ("topic", "producerHost")
        series = group_series(rows, "bucketTimestamp", "p99Ms", names, combine=max)
        return LineChart(title="Born to store time, 99 %", unit="ms", series=series)
    labels = ("store", "topic", "producerHost")
    shares = ("p50Ms", "p90Ms", "p99Ms")
    bars = [
        Bar(label=label_of(row, labels), values=[row[share] or 0 for share in shares])
        for row in rows
    ]
    bars.sort(key=lambda bar: -bar.values[-1])
    return _bar_chart("Born to store time", "ms", ["50 %", "90 %", "99 %"], bars)


_CHARTS: Final[dict[tuple[str, str], Callable[[Sequence[Row]], Chart]]] = {
    ("traffic", "traffic"): traffic_chart,
    ("lag-history", "lag"): lag_chart,
    ("lag-history", "groups"): lag_chart,
    ("latency", "stored"): latency_chart,
}


def _bar_chart(title: str, unit: str, legend: list[str], bars: list[Bar]) -> BarChart:
    omitted = max(len(bars) - MAX_BARS, 0)
    return BarChart(title=title, unit=unit, legend=legend, bars=bars[:MAX_BARS], omitted=omitted)


def label_of(row: Row, names: Sequence[str]) -> str:
    """Return the grouping values of a row as a label, "all" without any."""
    words = [str(row[name]) for name in names if row.get(name) is not None]
    return " ".join(words) or "all"


def group_series(
    rows: Sequence[Row],
    time: str,
    value: str,
    names: Sequence[str],
    *,
    combine: Callable[[Iterable[float]], float] = sum,
) -> list[Series]:
    """Return one series per group, the largest first; small groups together as "N others".

    ``combine`` (sum or max) merges several values of one group and time.
    """
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.get(value) is not None:
            points = values.setdefault(label_of(row, names), {})
            points.setdefault(row[time], []).append(row[value])
    merged = {
        name: {at: combine(several) for at, several in points.items()}
        for name, points in values.items()
    }
    order = sorted(merged, key=lambda name: (-sum(merged[name].values()), name))
    shown = order if len(order) <= MAX_LINES + 1 else order[:MAX_LINES]
    series = [Series(name=name, points=sorted(merged[name].items())) for name in shown]
    rest: dict[int, list[float]] = {}
    for name in order[len(shown) :]:
        for at, one in merged[name].items():
            rest.setdefault(at, []).append(one)
    if rest:
        others = sorted((at, combine(several)) for at, several in rest.items())
        series.append(Series(name=f"{len(order) - len(shown)} others", points=others))
    return series


def scale_of(largest: float, unit: str) -> tuple[float, str]:
    """Return divisor and symbol for values up to ``largest``."""
    base, symbols = _SYMBOLS.get(unit, (1000, ("", "k", "M", "G", "T")))
    power = 0
    while largest >= base ** (power + 1) and power < len(symbols) - 1:
        power += 1
    return float(base**power), symbols[power]


def format_value(value: float, unit: str) -> str:
    """Format a value with one decimal and its symbol: 1.5 KiB, 12 ms, 2.5 M."""
    divisor, symbol = scale_of(abs(value), unit)
    return f"{f'{value / divisor:.1f}'.removesuffix('.0')} {symbol}".strip()


# ---- charts as files


def render(chart: Chart, suffix: str) -> bytes:
    """Return a chart as the contents of a .png, .svg or .html file."""
    # An optional dependency (extra plot): imported only when a chart is drawn.
    import matplotlib as mpl
    from matplotlib.figure import Figure

    data = io.BytesIO()
    settings = {"svg.fonttype": "none", "svg.hashsalt": "mqadmin", "axes.axisbelow": True}
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The built-in font has no CJK glyphs: a PNG shows boxes then, which is not an error.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(layout="constrained")
        axes = figure.subplots()
        axes.set_title(chart.title, loc="left")
        if isinstance(chart, BarChart):
            tooltips = _draw_bars(figure, axes, chart)
        else:
            tooltips = _draw_lines(figure, axes, chart)
        axes.spines[["top", "right"]].set_visible(False)
        if suffix == ".png":
            figure.savefig(data, format="png", dpi=PNG_DPI)
            return data.getvalue()
        figure.savefig(data, format="svg", metadata={"Date": None})
    svg = _with_tooltips(data.getvalue(), chart.title, tooltips)
    return svg if suffix == ".svg" else _html_page(chart.title, svg)


def _draw_bars(figure: Any, axes: Any, chart: BarChart) -> dict[str, str]:
    """Draw the bars; return their tooltips by element id."""
    count = len(chart.legend)
    thickness = 0.8 / count
    tooltips = {}
    figure.set_size_inches(WIDTH_INCHES, 1.2 + len(chart.bars) * (0.15 + 0.18 * count))
    divisor, symbol = scale_of(max(max(bar.values) for bar in chart.bars), chart.unit)
    for place, name in enumerate(chart.legend):
        positions = [
            number + (place - (count - 1) / 2) * thickness for number in range(len(chart.bars))
        ]
        values = [bar.values[place] for bar in chart.bars]
        drawn = axes.barh(
            positions,
            [max(value, 0) / divisor for value in values],
            height=thickness * 0.9,
            color=COLORS[place],
            label=name,
        )
        texts = [format_value(value, chart.unit) for value in values]
        axes.bar_label(drawn, texts, padding=3, fontsize=8)
        for number, (patch, bar, text) in enumerate(zip(drawn, chart.bars, texts, strict=True)):
            patch.set_gid(f"bar-{place}-{number}")
            tooltips[f"bar-{place}-{number}"] = f"{bar.label}: {name} {text}"
    axes.set_yticks(range(len(chart.bars)), [_label(bar.label) for bar in chart.bars])
    axes.invert_yaxis()
    axes.grid(axis="x", color="#e4e4e4")
    axes.margins(x=0.12)
    axes.set_xlabel(symbol)
    if chart.omitted:
        axes.set_xlabel(f"{symbol}\n{chart.omitted} more are not shown".strip())
    if count > 1:
        figure.legend(loc="outside upper right", ncols=count)
    return tooltips


def _draw_lines(figure: Any, axes: Any, chart: LineChart) -> dict[str, str]:
    """Draw the lines; return their tooltips by element id."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    figure.set_size_inches(WIDTH_INCHES, 4.8)
    largest = max((value for one in chart.series for _, value in one.points), default=0)
    divisor, symbol = scale_of(largest, chart.unit)
    tooltips = {}
    lines = []
    for number, one in enumerate(chart.series):
        (line,) = axes.plot(
            [datetime.fromtimestamp(at / 1000, UTC) for at, _ in one.points],
            [value / divisor for _, value in one.points],
            color=COLORS[min(number, len(COLORS) - 1)],
            marker=".",
            gid=f"line-{number}",
        )
        lines.append(line)
        peak = format_value(max(value for _, value in one.points), chart.unit)
        tooltips[f"line-{number}"] = f"{one.name}: at most {peak}"
    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes.set_ylim(bottom=0)
    scaled = f"{chart.unit} ({symbol})" if symbol else chart.unit
    axes.set_ylabel(symbol if chart.unit in _SYMBOLS else scaled)
    axes.grid(axis="y", color="#e4e4e4")
    figure.legend(
        lines, [_label(one.name) for one in chart.series], loc="outside lower left", ncols=2
    )
    return tooltips


def _label(text: str) -> str:
    """Shorten a label; ``$`` would otherwise start a formula."""
    short = text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
    return short.replace("$", r"\$")


def _with_tooltips(svg: bytes, title: str, tooltips: dict[str, str]) -> bytes:
    """Add a title and tooltips to matplotlib's SVG; remove its DTD reference and metadata."""
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for element in [root, *root.iter(f"{{{_SVG}}}g")]:
        text = title if element is root else tooltips.get(element.get("id", ""))
        if text is not None:
            child = ElementTree.Element(f"{{{_SVG}}}title")
            child.text = text
            element.insert(0, child)
    data: bytes = ElementTree.tostring(root, encoding="utf-8")
    return data + b"\n"


def _html_page(title: str, svg: bytes) -> bytes:
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n"
        "<style>body{margin:2em;background:#fff}svg{max-width:100%;height:auto}</style>\n"
        "</head><body>\n"
    )
    return head.encode() + svg + b"</body></html>\n"
