"""``mqadmin check dlq``."""

from typing import Annotated

from mqadmin.admin.checks.groups import check_dlq
from mqadmin.command.check.noun import NOUN, Outfile, run_check
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import whole
from mqadmin.output.view import View

CHECK_DLQ = View("check.dlq", ("name", "status", "message"))


@NOUN.verb(
    "dlq",
    view=CHECK_DLQ,
    examples=["mqadmin check dlq --warn 0 --crit 100", "mqadmin check dlq payments -o prometheus"],
)
def check(
    session: Session,
    groups: Annotated[
        list[str] | None,
        Argument("GROUP", help="Consumer groups; default: all groups.", complete="group"),
    ] = None,
    warn: Annotated[
        int,
        Option("--warn", metavar="N", help="Warning above N dead letters.", parse=whole),
    ] = 0,
    crit: Annotated[
        int,
        Option("--crit", metavar="N", help="Critical above N dead letters.", parse=whole),
    ] = 1000,
    outfile: Outfile = None,
) -> None:
    """Check the number of dead letters of consumer groups.

    Counted are the messages stored in the DLQ topic of each group, replayed or not: they stay until
    retention deletes them. mqadmin dlq list shows their age and growth, mqadmin dlq show the
    messages.
    """
    run_check(
        session, "dlq", lambda: check_dlq(session.admin, warn, crit, groups or ()), outfile=outfile
    )
