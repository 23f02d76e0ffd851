"""``mqadmin store diff``."""

from typing import Annotated

from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument
from mqadmin.command.store.noun import NOUN, PATH_HELP
from mqadmin.inspector.compare.logs import diff as compare
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.view import View

DIFF = View("store.diff", single=True)


@NOUN.verb(
    "diff",
    view=DIFF,
    examples=["mqadmin store diff /data/master/store /data/slave/store"],
)
def diff(
    session: Session,
    one: Annotated[str, Argument("A", help=PATH_HELP, complete="file")],
    other: Annotated[str, Argument("B", help=PATH_HELP, complete="file")],
) -> None:
    """Compare the CommitLogs of two stores: same bytes up to which offset.

    The log of a slave has the bytes of its master's. verdict is equal; shorter if one log is the
    beginning of the other; different if bytes differ: firstDifference is the physical offset, and
    recordA and recordB are the records there; disjoint if no offset is in both. The status is 0 for
    equal and 1 otherwise. Brokers may be running; nothing is written.
    """
    found = compare(StoreDirectory(one), StoreDirectory(other))
    session.emit_one(DIFF, found)
    if found.verdict != "equal":
        session.status = NO
