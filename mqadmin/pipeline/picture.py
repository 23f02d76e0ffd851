"""Pictures out of rectangles, lines and words: SVG, HTML or PNG, with nothing but this module.

A picture is a list of shapes in pixels, drawn in order. SVG and HTML stand alone (no script, no
font, nothing to load) and say more when the mouse rests on a shape; the PNG is drawn dot by dot,
with an alphabet of its own.
"""

import os
import struct
import zlib
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.errors import ConfigError
from mqadmin.pipeline.glyphs import HEIGHT, WIDTH, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
CHARACTER: Final = 0.6  # width of a character by its height in a monospaced font
SCALE: Final = 2  # a PNG has this many dots to a pixel, so that it is sharp


class Rectangle(msgspec.Struct, frozen=True, kw_only=True):
    """A filled rectangle; ``note`` shows when the mouse rests on it."""

    x: float
    y: float
    width: float
    height: float
    color: str
    note: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line through points."""

    points: list[tuple[float, float]]
    color: str
    width: float = 1.5
    note: str = ""


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A line of text whose base line is at ``y``; ``anchor`` start, middle or end."""

    x: float
    y: float
    text: str
    color: str = "#333333"
    size: float = 12
    anchor: str = "start"


Shape = Rectangle | Line | Words


class Picture(msgspec.Struct, kw_only=True):
    """Shapes on a white ground."""

    width: int
    height: int
    title: str
    shapes: list[Shape]


def write_picture(picture: Picture, path: str) -> None:
    """Write a picture in the form that the name's ending says. ConfigError for an unknown one."""
    ending = Path(path).suffix
    if ending == ".svg":
        data = svg(picture).encode()
    elif ending == ".html":
        data = html(picture).encode()
    elif ending == ".png":
        data = png(picture)
    else:
        raise ConfigError(f"{path}: no known kind of picture", "end it in .png, .svg or .html")
    from mqadmin.pipeline.parquet import write_whole

    write_whole(Path(path), data)


def check_place(path: str) -> None:
    """Tell before a long run that a picture cannot be written there; ConfigError."""
    folder = Path(path).absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ConfigError(f"{path}: {folder} is no folder that can be written")


def svg(picture: Picture) -> str:
    """A picture as SVG."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{picture.height}"'
        f' viewBox="0 0 {picture.width} {picture.height}" font-family="{FONT}" role="img"'
        f' aria-label="{escape(picture.title)}">'
    )
    ground = f'<rect width="{picture.width}" height="{picture.height}" fill="#ffffff"/>'
    return "\n".join([head, ground, *map(_svg_shape, picture.shapes), "</svg>"]) + "\n"


def _svg_shape(shape: Shape) -> str:
    if isinstance(shape, Words):
        return (
            f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:g}"'
            f' fill="{shape.color}" text-anchor="{shape.anchor}">{escape(shape.text)}</text>'
        )
    note = f"<title>{escape(shape.note)}</title>" if shape.note else ""
    if isinstance(shape, Rectangle):
        return (
            f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}"'
            f' height="{shape.height:.1f}" fill="{shape.color}">{note}</rect>'
        )
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
    return (
        f'<polyline points="{points}" fill="none" stroke="{shape.color}"'
        f' stroke-width="{shape.width:g}">{note}</polyline>'
    )


def html(picture: Picture) -> str:
    """A picture as a page that stands alone."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>{escape(picture.title)}</title>\n"
        "<style>body{margin:2em;background:#fff}svg{max-width:100%;height:auto}</style>\n"
        f"</head><body>\n{svg(picture)}</body></html>\n"
    )


def png(picture: Picture) -> bytes:
    """A picture as PNG, 24 bits per dot."""
    canvas = Canvas(picture.width, picture.height)
    for shape in picture.shapes:
        canvas.draw(shape)
    return canvas.encoded()


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


class Canvas:
    """Dots of a PNG."""

    def __init__(self, width: int, height: int) -> None:
        import numpy as np

        self.dots: NDArray[Any] = np.full((height * SCALE, width * SCALE, 3), 255, dtype=np.uint8)

    def draw(self, shape: Shape) -> None:
        """Draw one shape over what is there."""
        if isinstance(shape, Rectangle):
            self._fill(shape.x, shape.y, shape.x + shape.width, shape.y + shape.height, shape.color)
        elif isinstance(shape, Line):
            for (x0, y0), (x1, y1) in zip(shape.points, shape.points[1:], strict=False):
                self._segment((x0, y0), (x1, y1), shape)
        else:
            self._words(shape)

    def _fill(self, x0: float, y0: float, x1: float, y1: float, color: str) -> None:
        left, top = max(round(x0 * SCALE), 0), max(round(y0 * SCALE), 0)
        right, bottom = round(x1 * SCALE), round(y1 * SCALE)
        self.dots[top : max(bottom, top + 1), left : max(right, left + 1)] = _rgb(color)

    def _segment(self, start: tuple[float, float], end: tuple[float, float], line: Line) -> None:
        half = line.width / 2
        steps = int(max(abs(end[0] - start[0]), abs(end[1] - start[1])) * SCALE) + 1
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step / steps
            y = start[1] + (end[1] - start[1]) * step / steps
            self._fill(x - half, y - half, x + half, y + half, line.color)

    def _words(self, words: Words) -> None:
        # A dot of the alphabet in dots of the picture; a character takes six of them.
        dot = max(round(words.size * SCALE * CHARACTER / (WIDTH + 1)), 1)
        width = len(words.text) * (WIDTH + 1) * dot
        left = words.x * SCALE
        left -= {"start": 0, "middle": width / 2, "end": width}[words.anchor]
        top = round(words.y * SCALE) - HEIGHT * dot
        for number, character in enumerate(words.text):
            x = round(left) + number * (WIDTH + 1) * dot
            for row, bits in enumerate(rows_of(character)):
                for column in range(WIDTH):
                    if bits >> (WIDTH - 1 - column) & 1 and x + column * dot >= 0 and top >= 0:
                        self.dots[
                            top + row * dot : top + (row + 1) * dot,
                            x + column * dot : x + (column + 1) * dot,
                        ] = _rgb(words.color)

    def encoded(self) -> bytes:
        """The file."""
        height, width, _ = self.dots.shape
        rows = b"".join(b"\0" + row.tobytes() for row in self.dots)
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)
