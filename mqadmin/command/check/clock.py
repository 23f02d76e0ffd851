"""``mqadmin check clock``."""

from typing import Annotated

from mqadmin.admin.checks.clock import check_clock
from mqadmin.command.check.noun import NOUN, Broker, Cluster, Outfile, run_check
from mqadmin.command.check.thresholds import seconds
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import View

CHECK_CLOCK = View("check.clock", ("name", "status", "message"))


@NOUN.verb(
    "clock",
    view=CHECK_CLOCK,
    examples=["mqadmin check clock --warn 2s --crit 30s", "mqadmin check clock broker-a -o json"],
)
def check(
    session: Session,
    broker: Broker = None,
    cluster: Cluster = None,
    warn: Annotated[
        float,
        Option("--warn", metavar="DUR", help="Warning above this skew.", parse=seconds, shown="2s"),
    ] = 2.0,
    crit: Annotated[
        float,
        Option(
            "--crit", metavar="DUR", help="Critical above this skew.", parse=seconds, shown="30s"
        ),
    ] = 30.0,
    outfile: Outfile = None,
) -> None:
    """Check that the clocks of brokers agree with the clock of this host.

    Store times, delays, retention and queries by time use the broker's clock. It is computed from
    the start time and the uptime that a broker reports, with a precision of one second.
    """
    run_check(
        session,
        "clock",
        lambda: check_clock(session.admin, warn, crit, broker=broker, cluster=cluster),
        outfile=outfile,
    )
