"""``mqadmin store diff``."""

import os
from typing import Annotated

from mqadmin.admin.failover.log_diff import diff_logs
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument
from mqadmin.command.store.noun import NOUN, PATH_HELP
from mqadmin.inspector.compare.logs import diff as compare
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.output.view import View

DIFF = View("store.diff", single=True)
LIVE_DIFF = View("store.diff.live", single=True)


@NOUN.verb(
    "diff",
    view=(DIFF, LIVE_DIFF),
    examples=[
        "mqadmin store diff /data/master/store /data/slave/store",
        "mqadmin store diff 10.0.0.1:10911 10.0.0.2:10911",
    ],
)
def diff(
    session: Session,
    one: Annotated[str, Argument("A", help=f"{PATH_HELP} Or HOST:PORT.", complete="file")],
    other: Annotated[str, Argument("B", help=f"{PATH_HELP} Or HOST:PORT.", complete="file")],
) -> None:
    """Compare the CommitLogs of two stores: same bytes up to which offset.

    The log of a slave has the bytes of its master's. verdict is equal; shorter if one log is the
    beginning of the other; different if bytes differ: firstDifference is the physical offset, and
    recordA and recordB are the records there; disjoint if no offset is in both. The status is 0 for
    equal and 1 otherwise. Brokers may be running; nothing is written.

    Two addresses HOST:PORT compare the logs of running brokers by checksums: the last MiB that both
    have, samples before it, and a bisection to the first difference; comparedBytes counts the
    bytes read. Of a Java broker only the end of the log is known: verdict is unknown.
    """
    if _is_address(one) and _is_address(other):
        live = diff_logs(session.admin, one, other)
        session.emit_one(LIVE_DIFF, live)
        if live.verdict != "equal":
            session.status = NO
        return
    found = compare(StoreDirectory(one), StoreDirectory(other))
    session.emit_one(DIFF, found)
    if found.verdict != "equal":
        session.status = NO


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdecimal() and not os.path.exists(text)
