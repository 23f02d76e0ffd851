"""Charts show the rows of a result, and every file format is valid."""

import errno
import re
import struct
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from broker.errors import ConfigError, DiskFullError
from mqadmin.pipeline.sinks import plot
from mqadmin.pipeline.sinks.plot import (
    BarChart,
    LineChart,
    Series,
    draw_statistics,
    format_value,
    group_series,
    render,
)

pytest.importorskip("matplotlib", reason="the extra plot is not installed")

SVG = "{http://www.w3.org/2000/svg}"
TRAFFIC = [
    {"topic": "orders", "bytes": 3 << 20, "bucketTimestamp": None},
    {"topic": '<odd> & "co" $1_$', "bytes": 1 << 20, "bucketTimestamp": None},
]
LAG = [
    {"group": f"g{g}", "topic": "t", "queueId": q, "snapshotTimestamp": at, "lag": 100 - g}
    for g in range(12)
    for q in range(2)
    for at in (1000, 61_000)
]


def texts(svg: bytes, tag: str = "text") -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(SVG + tag)]


def element(svg: bytes, name: str) -> ElementTree.Element:
    (found,) = [node for node in ElementTree.fromstring(svg).iter() if node.get("id") == name]
    return found


def points(svg: bytes, name: str) -> list[tuple[float, float]]:
    """Return the vertices of an element's first path in SVG coordinates."""
    data = next(element(svg, name).iter(SVG + "path")).get("d", "")
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", data)]


def width(svg: bytes, name: str) -> float:
    across = [x for x, _ in points(svg, name)]
    return max(across) - min(across)


def test_bars_are_as_long_as_their_values_and_are_labelled() -> None:
    chart = plot.traffic_chart(TRAFFIC)
    assert isinstance(chart, BarChart)
    svg = render(chart, ".svg")
    assert width(svg, "bar-0-0") == pytest.approx(3 * width(svg, "bar-0-1"), rel=1e-3)
    assert {"Bytes stored", "orders", "3 MiB", '<odd> & "co" $1_$'} <= set(texts(svg))
    assert "orders: bytes 3 MiB" in texts(svg, "title")


def test_bars_beyond_the_maximum_are_counted() -> None:
    rows = [{"topic": f"t{n}", "bytes": 100 - n, "bucketTimestamp": None} for n in range(50)]
    svg = render(plot.traffic_chart(rows), ".svg")
    assert "20 more are not shown" in texts(svg)
    assert "t29" in texts(svg)
    assert "t30" not in texts(svg)


def test_groups_are_series_and_small_groups_are_merged() -> None:
    series = group_series(LAG, "snapshotTimestamp", "lag", ("group", "topic"))
    assert [one.name for one in series][:2] == ["g0 t", "g1 t"]
    assert series[0].points == [(1000, 200), (61_000, 200)]
    assert len(series) == 9
    assert series[-1].name == "4 others"
    assert series[-1].points[0] == (1000, 2 * (92 + 91 + 90 + 89))


def test_lines_are_labelled_and_larger_values_are_higher() -> None:
    svg = render(plot.lag_chart(LAG), ".svg")
    assert {"Lag of consumer groups", "g0 t", "g7 t", "4 others"} <= set(texts(svg))
    assert "g0 t: at most 200" in texts(svg, "title")
    (left, first), (right, last) = points(svg, "line-0")
    assert left < right
    assert first == last
    assert points(svg, "line-1")[0][1] > first  # SVG coordinates grow downwards


def test_a_single_point_in_time_is_drawn() -> None:
    rows = [{"group": "g", "topic": "t", "snapshotTimestamp": 5, "lag": 0}]
    assert "g t" in texts(render(plot.lag_chart(rows), ".svg"))


def test_latency_has_a_bar_per_percentile_or_a_line_per_topic() -> None:
    row = {"topic": "t", "p50Ms": 1, "p90Ms": None, "p99Ms": 30, "bucketTimestamp": None}
    svg = render(plot.latency_chart([row]), ".svg")
    assert {"50 %", "90 %", "99 %", "30 ms", "t"} <= set(texts(svg))
    chart = plot.latency_chart([{**row, "bucketTimestamp": at} for at in (0, 1000)])
    assert isinstance(chart, LineChart)
    assert chart.series == [Series(name="t", points=[(0, 30), (1000, 30)])]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1536, "bytes", "1.5 KiB"),
        (1 << 50, "bytes", "1024 TiB"),
        (0, "bytes", "0 B"),
        (12, "ms", "12 ms"),
        (2500, "ms", "2.5 s"),
        (-2500, "ms", "-2.5 s"),
        (7_200_000, "ms", "7200 s"),
        (2_500_000, "messages", "2.5 M"),
    ],
)
def test_values_are_short(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_svg_and_html_load_nothing_from_the_network() -> None:
    chart = plot.traffic_chart(TRAFFIC)
    svg, html = render(chart, ".svg"), render(chart, ".html")
    assert b"<!DOCTYPE" not in svg
    page = Page()
    page.feed(html.decode())
    assert page.tags[:4] == ["html", "head", "meta", "title"]
    assert {"svg", "text"} <= set(page.tags)
    assert not {"script", "img", "link", "image"} & set(page.tags)
    links = [value or "" for name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(link.startswith("#") for link in links)
    assert svg in html


def decode_png(data: bytes) -> tuple[int, int, bytes]:
    """Return width, height and pixel rows of a PNG with 4 bytes per pixel; check every chunk."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, header, pixels = 8, b"", b""
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        body = data[position + 8 : position + 8 + length]
        (check,) = struct.unpack_from(">I", data, position + 8 + length)
        assert zlib.crc32(kind + body) == check
        header = body if kind == b"IHDR" else header
        pixels += body if kind == b"IDAT" else b""
        position += 12 + length
    across, down = struct.unpack_from(">II", header)
    rows = zlib.decompress(pixels)
    assert len(rows) == down * (1 + across * 4)
    return across, down, rows


def test_a_png_contains_a_picture() -> None:
    across, _, rows = decode_png(render(plot.traffic_chart(TRAFFIC), ".png"))
    assert across == plot.WIDTH_INCHES * plot.PNG_DPI
    assert len(set(rows)) > 10


def test_glyphs_missing_in_the_font_are_not_an_error() -> None:
    rows = [{"topic": "订单", "bytes": 1, "bucketTimestamp": None}]
    decode_png(render(plot.traffic_chart(rows), ".png"))
    assert "订单" in texts(render(plot.traffic_chart(rows), ".svg"))


@pytest.mark.parametrize("suffix", plot.SUFFIXES)
def test_the_suffix_selects_the_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"picture{suffix}"
    plot.draw("traffic", "traffic", TRAFFIC, str(path))
    starts = {".png": b"\x89PNG", ".svg": b"<svg", ".html": b"<!doctype html>"}
    assert path.read_bytes().startswith(starts[suffix])
    assert list(tmp_path.iterdir()) == [path]


def test_results_without_a_chart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rows"):
        plot.draw("traffic", "traffic", [], str(tmp_path / "a.png"))
    for job, table in (("traffic", "hot-keys"), ("dlq", "groups")):
        with pytest.raises(ConfigError, match=table):
            plot.draw(job, table, TRAFFIC, str(tmp_path / "a.png"))


def test_a_path_is_checked_before_the_run(tmp_path: Path) -> None:
    plot.check_plot_path(str(tmp_path / "a.svg"))
    with pytest.raises(ConfigError, match="unknown picture format"):
        plot.check_plot_path(str(tmp_path / "a.gif"))
    with pytest.raises(ConfigError, match="not a writable directory"):
        plot.check_plot_path(str(tmp_path / "missing" / "a.svg"))


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="matplotlib, which is not installed") as raised:
        plot.check_plot_path(str(tmp_path / "a.svg"))
    assert raised.value.hint == "pip install 'mqadmin[plot]'"


def test_statistics_without_rows_are_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rows"):
        draw_statistics("topic", [], str(tmp_path / "x.svg"))


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, DiskFullError), (5, ConfigError)])
def test_a_picture_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def fails(path: Path, data: bytes) -> None:
        raise OSError(code, "the reason")

    monkeypatch.setattr(plot, "write_atomically", fails)
    path = tmp_path / "x.svg"
    with pytest.raises(kind, match=f"^cannot write {path}: the reason$"):
        draw_statistics("topic", [{"value": "t", "bytes": 1}], str(path))
