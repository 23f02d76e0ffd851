"""CSV: one line per row, nested values as JSON.

Loaded only for ``-o csv``, like the other forms that need a library.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any

from mqadmin.output.stdio import flush_out, write_gathered, write_out
from mqadmin.output.values import time_name
from mqadmin.output.view import Outcome, View
from mqadmin.safe_text import csv_cell


def write_rows(
    view: View, rows: Iterator[dict[str, Any]], outcome: Outcome, live: bool, row_type: Any
) -> int:
    """Write the view's wide columns, or all fields of the first row; nested values as JSON."""
    buffer = io.StringIO()
    names: list[str] = list(view.wide)

    def pieces() -> Iterator[str]:
        writer = csv.writer(buffer, lineterminator="\n")
        head_due = True
        for row in rows:
            if head_due:
                if not names:
                    names.extend(row)
                writer.writerow(names)
                head_due = False
            writer.writerow([csv_cell(row.get(name)) for name in names])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()

    count = write_gathered(pieces(), live=live)
    if not count:
        write_out(",".join(names or _declared_fields(view, row_type)) + "\n")
        flush_out()
    return count


def write_cells(
    view: View, rows: Iterator[dict[str, Any]], outcome: Outcome, live: bool, row_type: Any
) -> int:
    """Write rows without a header, each with its fields in order."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")

    def pieces() -> Iterator[str]:
        for row in rows:
            writer.writerow([csv_cell(value) for value in row.values()])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()

    return write_gathered(pieces(), live=live)


def write_one(view: View, fields: dict[str, Any]) -> None:
    """Write one object as a file of one row."""
    write_rows(view, iter((fields,)), Outcome(), False, None)


def _declared_fields(view: View, row_type: Any) -> list[str]:
    """Return the columns a row would have: an empty CSV has its header too."""
    if row_type is None:
        return list(view.columns)
    names: list[str] = []
    for name in row_type.__struct_encode_fields__:
        names.append(name)
        time_field = time_name(name)
        if time_field is not None:
            names.append(time_field)
    return names
