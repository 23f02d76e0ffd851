"""``mqadmin store layout``."""

from typing import Annotated

from broker.store.format.layout import LAYOUTS, find_layouts, layout_object, layout_text
from mqadmin.command.execution.failure import NoResults
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument
from mqadmin.command.store.noun import NOUN
from mqadmin.output.stdio import write_out
from mqadmin.output.view import View

LAYOUT = View("store.layout")


@NOUN.verb(
    "layout",
    view=LAYOUT,
    examples=["mqadmin store layout", "mqadmin store layout record", "mqadmin store layout index"],
)
def layout(
    session: Session,
    name: Annotated[
        str, Argument("NAME", help="Name of a layout or its first characters; default: all.")
    ] = "",
) -> None:
    """Print the layout of store files, field by field.

    The encoders and decoders are generated from the same tables.
    """
    found = find_layouts(name)
    if not found:
        known = ", ".join(item.name for item in LAYOUTS)
        raise NoResults(f"no layout {name!r}", f"available: {known}")
    if session.is_table:
        write_out("\n".join(layout_text(item) for item in found))
        return
    session.emit(LAYOUT, [layout_object(item) for item in found])
