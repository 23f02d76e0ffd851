"""Charts and pictures: they hold what the rows say, and every form of file is a good one."""

import struct
import zlib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from broker.errors import ConfigError
from mqadmin.pipeline import glyphs, plot
from mqadmin.pipeline.picture import Canvas, Line, Picture, Rectangle, Words, html, png, svg

TRAFFIC = [
    {"topic": "orders", "bytes": 3 << 20, "bucketTimestamp": None},
    {"topic": '<odd> & "co"', "bytes": 1 << 20, "bucketTimestamp": None},
]


def texts(picture: Picture) -> list[str]:
    return [shape.text for shape in picture.shapes if isinstance(shape, Words)]


def test_bars_are_as_long_as_their_values() -> None:
    picture = plot.traffic(TRAFFIC)
    bars = [s for s in picture.shapes if isinstance(s, Rectangle) and s.color == plot.COLORS[0]]
    assert bars[0].width == pytest.approx(3 * bars[1].width)
    assert "orders" in texts(picture)
    assert "3 MiB" in texts(picture)
    assert bars[0].note == "orders: bytes 3 MiB"


def test_no_more_bars_than_can_be_read() -> None:
    rows = [{"topic": f"t{n}", "bytes": 100 - n, "bucketTimestamp": None} for n in range(50)]
    picture = plot.traffic(rows)
    assert "20 more are not shown" in texts(picture)


def test_lines_join_the_points_of_a_group_and_small_groups_are_one() -> None:
    rows = [
        {"group": f"g{g}", "topic": "t", "queueId": q, "snapshotTimestamp": at, "lag": 100 - g}
        for g in range(12)
        for q in range(2)
        for at in (1000, 61_000)
    ]
    series = plot.gathered(rows, "snapshotTimestamp", "lag", ("group", "topic"))
    assert [one.name for one in series][:2] == ["g0 t", "g1 t"]
    assert series[0].points == [(1000, 200), (61_000, 200)]
    assert series[-1].name == "4 others"
    assert series[-1].points[0] == (1000, 2 * (92 + 91 + 90 + 89))
    picture = plot.lag(rows)
    lines = [shape for shape in picture.shapes if isinstance(shape, Line)]
    assert len(lines) == 9
    assert lines[0].points[0][1] < lines[1].points[0][1]  # more is higher


def test_one_point_in_time_is_a_picture_too() -> None:
    rows = [{"group": "g", "topic": "t", "snapshotTimestamp": 5, "lag": 0}]
    assert "g t" in texts(plot.lag(rows))


def test_latency_has_a_bar_per_share_and_a_line_per_topic() -> None:
    row = {"topic": "t", "p50Ms": 1, "p90Ms": None, "p99Ms": 30, "bucketTimestamp": None}
    assert {"50 %", "90 %", "99 %", "30 ms"} <= set(texts(plot.latency([row])))
    rows = [{**row, "bucketTimestamp": at} for at in (0, 1000)]
    assert any(isinstance(shape, Line) for shape in plot.latency(rows).shapes)


@pytest.mark.parametrize(
    ("most", "unit", "ticks"),
    [
        (0, "", [0, 1]),
        (7, "", [0, 2, 4, 6, 8]),
        (100, "", [0, 20, 40, 60, 80, 100]),
        (3 << 20, "bytes", [at << 20 for at in range(4)]),
        (0.3, "", [0, 0.1, 0.2, 0.3]),
    ],
)
def test_ticks_are_round(most: float, unit: str, ticks: list[float]) -> None:
    found = plot.nice_ticks(most, unit)
    assert found[-1] >= most
    assert found == pytest.approx(ticks)


def test_numbers_are_short() -> None:
    assert plot.number(1536, "bytes") == "1.5 KiB"
    assert plot.number(12, "ms") == "12 ms"
    assert plot.number(2_500_000, "messages") == "2.5 M"
    assert plot.number(0, "bytes") == "0 B"


def test_svg_and_html_are_well_formed_and_load_nothing() -> None:
    picture = plot.traffic(TRAFFIC)
    root = ElementTree.fromstring(svg(picture))
    assert root.tag.endswith("svg")
    assert any(node.text == '<odd> & "co"' for node in root.iter() if node.tag.endswith("text"))
    page = html(picture)
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def decoded(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and dots of a PNG of ours; every chunk checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, parts = 8, {}
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        body = data[position + 8 : position + 8 + length]
        (check,) = struct.unpack_from(">I", data, position + 8 + length)
        assert zlib.crc32(kind + body) == check
        parts[kind] = body
        position += 12 + length
    width, height, depth, colour = struct.unpack_from(">IIBB", parts[b"IHDR"])
    assert (depth, colour) == (8, 2)
    rows = zlib.decompress(parts[b"IDAT"])
    assert len(rows) == height * (1 + width * 3)
    return width, height, rows


def test_a_png_has_the_dots_that_were_drawn() -> None:
    shapes: list[Any] = [
        Rectangle(x=2, y=3, width=4, height=5, color="#ff0000"),
        Line(points=[(0, 0), (9, 0)], color="#00ff00", width=1),
    ]
    width, height, rows = decoded(png(Picture(width=10, height=10, title="", shapes=shapes)))
    assert (width, height) == (20, 20)

    def dot(x: int, y: int) -> bytes:
        at = y * (1 + width * 3) + 1 + x * 3
        return rows[at : at + 3]

    assert dot(4, 6) == b"\xff\0\0"
    assert dot(11, 15) == b"\xff\0\0"
    assert dot(12, 15) == b"\xff\xff\xff"
    assert dot(5, 0) == b"\0\xff\0"


def test_every_printable_character_has_a_glyph_of_its_own() -> None:
    codes = [chr(code) for code in range(32, 127)]
    assert list(glyphs.GLYPHS) == codes
    drawn = [tuple(glyphs.rows_of(character)) for character in codes]
    assert len(set(drawn)) == len(drawn)
    assert all(len(rows) == 7 and max(rows) < 32 for rows in drawn)
    assert glyphs.rows_of("ü") == glyphs.rows_of("主")


def test_words_stay_within_the_canvas() -> None:
    canvas = Canvas(20, 10)
    for words in (
        Words(x=-5, y=9, text="left"),
        Words(x=18, y=9, text="right"),
        Words(x=5, y=-1, text="above"),
        Words(x=5, y=30, text="below"),
    ):
        canvas.draw(words)
    assert canvas.dots.shape == (20, 40, 3)


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_a_file_is_written_in_the_form_of_its_ending(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"picture.{ending}"
    plot.draw("traffic", "traffic", TRAFFIC, str(path))
    assert path.stat().st_size > 500


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rows"):
        plot.draw("traffic", "traffic", [], str(tmp_path / "a.png"))
    with pytest.raises(ConfigError, match="hot-keys"):
        plot.draw("traffic", "hot-keys", TRAFFIC, str(tmp_path / "a.png"))
    with pytest.raises(ConfigError, match="kind of picture"):
        plot.draw("traffic", "traffic", TRAFFIC, str(tmp_path / "a.gif"))
