"""Print the layouts of all store files as text, JSON or troff, from one table per format.

:data:`LAYOUTS` lists all of them; the codecs compile their structs from the same objects, so the
printed layouts match the bytes read and written.
"""

from typing import Any, Final

from broker.message.batch import BATCH_ITEM_LAYOUT
from broker.store.format import checkpoint, commitlog, consumequeue, ha, indexfile, timer
from broker.store.format.table import Layout

BATCH_ITEM: Final = Layout(
    name="batch-item",
    title="Item of an inner batch body",
    path="commitlog/<start>",
    fields=BATCH_ITEM_LAYOUT,
    notes=("Items fill the body of a record whose sysFlag has 0x80 (inner batch, 5.x).",),
)

LAYOUTS: Final[tuple[Layout, ...]] = (
    commitlog.RECORD,
    commitlog.BLANK,
    BATCH_ITEM,
    consumequeue.UNIT,
    consumequeue.BATCH_UNIT,
    consumequeue.EXT_UNIT,
    indexfile.HEADER,
    indexfile.SLOT,
    indexfile.ENTRY,
    checkpoint.LAYOUT,
    timer.CHECKPOINT,
    timer.SLOT,
    timer.LOG_UNIT,
    timer.LOG_BLANK,
    ha.REPORT,
    ha.TRANSFER,
)


def find_layouts(name: str = "") -> list[Layout]:
    """The layout named ``name``, else those whose name starts with it; all for an empty name.

    ``index`` finds header, slot and entry. Case is ignored, and ``_`` equals ``-``.
    """
    wanted = name.lower().replace("_", "-")
    named = [(layout.name.replace("_", "-"), layout) for layout in LAYOUTS]
    exact = [layout for known, layout in named if known == wanted]
    return exact or [layout for known, layout in named if known.startswith(wanted)]


def layout_rows(layout: Layout) -> list[dict[str, Any]]:
    """One row per field: name, offset, width (None where variable), type, since, meaning."""
    rows = []
    offset: int | None = 0
    for field in layout.fields:
        rows.append(
            {
                "field": field.name,
                "offset": offset,
                "width": field.width or None,
                "type": field.type,
                "since": None if field.since == "all" else field.since,
                "meaning": field.meaning,
            }
        )
        offset = offset + field.width if offset is not None and field.width else None
    return rows


def layout_object(layout: Layout) -> dict[str, Any]:
    """Convert a layout to plain values for JSON."""
    return {
        "name": layout.name,
        "title": layout.title,
        "path": layout.path,
        "size": layout.size,
        "fields": layout_rows(layout),
        "notes": list(layout.notes),
    }


def _cells(layout: Layout) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            "-" if row["offset"] is None else str(row["offset"]),
            "n" if row["width"] is None else str(row["width"]),
            str(row["type"]),
            str(row["field"]),
            row["meaning"] + (f" (since {row['since']})" if row["since"] else ""),
        )
        for row in layout_rows(layout)
    ]


def layout_text(layout: Layout) -> str:
    """Format a layout as a plain-text table, with the title above and the notes below."""
    head = ("offset", "width", "type", "field", "meaning")
    lines = [head, *_cells(layout)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    text = [f"{layout.title} ({layout.path}), all integers big-endian"]
    for line in lines:
        number = [line[column].rjust(widths[column]) for column in (0, 1)]
        words = [line[column].ljust(widths[column]) for column in (2, 3)]
        text.append("  ".join([*number, *words, line[4]]).rstrip())
    text += [f"  {note}" for note in layout.notes]
    return "\n".join(text) + "\n"


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def layout_troff(layout: Layout) -> str:
    """Format a layout as a section of a man page (man(7) macros, tbl(1) table)."""
    lines = [f".SS {_roff(layout.title)}", f"File: {_roff(layout.path)}", ".PP", ".TS"]
    lines += ["l l l l lx.", "offset\twidth\ttype\tfield\tmeaning", "_"]
    for row in _cells(layout):
        *short, meaning = (_roff(cell) for cell in row)
        lines.append("\t".join(short) + "\tT{\n" + meaning + "\nT}")  # T{ T}: the cell may wrap
    lines.append(".TE")
    for note in layout.notes:
        lines += [".PP", _roff(note)]
    return "\n".join(lines) + "\n"
