"""``mqadmin check disk``."""

from typing import Annotated

from mqadmin.admin.checks.brokers import check_disk
from mqadmin.command.check.noun import NOUN, Broker, Cluster, Outfile, run_check
from mqadmin.command.check.thresholds import percent
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import View

CHECK_DISK = View("check.disk", ("name", "status", "message"))


@NOUN.verb(
    "disk",
    view=CHECK_DISK,
    examples=["mqadmin check disk --warn 80% --crit 88%", "mqadmin check disk -o prometheus"],
)
def check(
    session: Session,
    broker: Broker = None,
    cluster: Cluster = None,
    warn: Annotated[
        float,
        Option(
            "--warn", metavar="PERCENT", help="Warning above this use.", parse=percent, shown="80%"
        ),
    ] = 80.0,
    crit: Annotated[
        float,
        Option(
            "--crit", metavar="PERCENT", help="Critical above this use.", parse=percent, shown="88%"
        ),
    ] = 88.0,
    outfile: Outfile = None,
) -> None:
    """Check the disks of brokers: the used part of CommitLog and ConsumeQueue file systems.

    Brokers delete old files early from 85% on (diskSpaceCleanForciblyRatio) and refuse sends from
    90% on (diskSpaceWarningLevelRatio): the default of critical is below that.
    """
    run_check(
        session,
        "disk",
        lambda: check_disk(session.admin, warn, crit, broker=broker, cluster=cluster),
        outfile=outfile,
    )
