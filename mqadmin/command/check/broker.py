"""``mqadmin check broker``."""

from typing import Annotated

from mqadmin.admin.checks.brokers import LIMITS, BrokerLimits, check_broker
from mqadmin.command.check.noun import NOUN, Broker, Cluster, Outfile, run_check
from mqadmin.command.check.thresholds import named
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import View

CHECK_BROKER = View("check.broker", ("name", "status", "message"))

UNITS = {name: limit[0] for name, limit in LIMITS.items()}


def limits_text(text: str) -> str:
    """Check limits by name and return the text; ValueError names the part that is invalid."""
    named(text, UNITS)
    return text


@NOUN.verb(
    "broker",
    view=CHECK_BROKER,
    examples=[
        "mqadmin check broker",
        "mqadmin check broker broker-a --warn sendQueueWait=50ms --crit dispatchBehind=1GiB",
        "mqadmin check broker --outfile /var/lib/node_exporter/rocketmq_broker.prom",
    ],
)
def check(
    session: Session,
    broker: Broker = None,
    cluster: Cluster = None,
    warn: Annotated[
        str,
        Option(
            "--warn",
            metavar="NAME=VALUE,…",
            help="Warning limits in place of the defaults; NAME=none removes one.",
            parse=limits_text,
        ),
    ] = "",
    crit: Annotated[
        str,
        Option(
            "--crit",
            metavar="NAME=VALUE,…",
            help="Critical limits in place of the defaults.",
            parse=limits_text,
        ),
    ] = "",
    outfile: Outfile = None,
) -> None:
    """Check that registered brokers answer and are not overloaded.

    Critical: a registered broker does not answer. The limits (warning, critical) are pageCacheLock
    (500ms, 1s), sendQueueWait (100ms, 200ms: the age of the first send that waits for a thread),
    pullQueueWait (1s, 5s), dispatchBehind (16MiB, 256MiB: log without ConsumeQueue units) and
    flushBehind (256MiB, 2GiB: log in memory only). Brokers of RocketMQ 4 and 5 report them.
    """
    limits = BrokerLimits(warn=named(warn, UNITS), crit=named(crit, UNITS))
    run_check(
        session,
        "broker",
        lambda: check_broker(session.admin, limits, broker=broker, cluster=cluster),
        outfile=outfile,
    )
