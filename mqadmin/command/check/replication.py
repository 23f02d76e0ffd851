"""``mqadmin check replication``."""

from typing import Annotated

from mqadmin.admin.checks.replication import Limits, check_replication
from mqadmin.command.check.noun import (
    NOUN,
    Broker,
    Cluster,
    Outfile,
    gap_limits,
    gap_text,
    run_check,
)
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import whole
from mqadmin.output.view import View

CHECK_REPLICATION = View("check.replication", ("name", "status", "message"))


@NOUN.verb(
    "replication",
    view=CHECK_REPLICATION,
    examples=[
        "mqadmin check replication --warn 16MiB,10s --crit 256MiB,1m --in-sync 1",
        "mqadmin check replication broker-a -o prometheus",
    ],
)
def replication(
    session: Session,
    broker: Broker = None,
    cluster: Cluster = None,
    warn: Annotated[
        str,
        Option(
            "--warn",
            metavar="GAP",
            help="Warning above this gap: bytes, seconds or both.",
            parse=gap_text,
        ),
    ] = "64MiB,30s",
    crit: Annotated[
        str,
        Option(
            "--crit",
            metavar="GAP",
            help="Critical above this gap: bytes, seconds or both.",
            parse=gap_text,
        ),
    ] = "256MiB,5m",
    in_sync: Annotated[
        int,
        Option("--in-sync", metavar="N", help="Critical with fewer slaves in sync.", parse=whole),
    ] = 1,
    outfile: Outfile = None,
) -> None:
    """Check that the slaves of each master are connected and close to it.

    The gap is the part of the master's log that its slowest slave has not acknowledged, in bytes
    and as the age of its first record. Warning, too: a slave that reports that it is not connected.
    Masters and slaves of RocketMQ 5 are checked as well; 4.9 does not know the request: unknown.
    """
    (warn_bytes, warn_seconds), (crit_bytes, crit_seconds) = gap_limits(warn), gap_limits(crit)
    limits = Limits(
        warn_bytes=warn_bytes,
        crit_bytes=crit_bytes,
        warn_seconds=warn_seconds,
        crit_seconds=crit_seconds,
        in_sync=in_sync,
    )
    run_check(
        session,
        "replication",
        lambda: check_replication(session.admin, limits, broker=broker, cluster=cluster),
        outfile=outfile,
    )
