"""``mqadmin store layout``."""

from typing import Annotated

from broker.store.format.layout import LAYOUTS, find_layouts, layout_object, layout_text
from mqadmin.command.declare import Argument
from mqadmin.command.failure import NoResults
from mqadmin.command.session import Session
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
        str, Argument("NAME", help="A layout or the beginning of its name; all when left out.")
    ] = "",
) -> None:
    """Print the layout of store files, field by field.

    The same tables drive the codecs: what is printed is what is read and written.
    """
    found = find_layouts(name)
    if not found:
        known = ", ".join(item.name for item in LAYOUTS)
        raise NoResults(f"no layout {name!r}", f"there are: {known}")
    if session.is_table:
        write_out("\n".join(layout_text(item) for item in found))
        return
    session.emit(LAYOUT, [layout_object(item) for item in found])
