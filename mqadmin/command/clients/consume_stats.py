"""``mqadmin consumer stats``."""

from typing import Annotated

from mqadmin.admin.clients import consume_stats as library
from mqadmin.command.consumer import NOUN
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import whole
from mqadmin.output.view import View

CONSUMER_STATS = View(
    "consumer.stats",
    (
        *("group", "topic", "brokerName", "queueId", "brokerOffset", "consumerOffset"),
        *("lag", "lastTime"),
    ),
)


@NOUN.verb(
    "stats",
    view=CONSUMER_STATS,
    examples=[
        "mqadmin consumer stats --min-lag 1000",
        "mqadmin consumer stats --broker broker-a -o ndjson",
    ],
)
def stats(
    session: Session,
    cluster: OnlyCluster = None,
    broker: Annotated[
        str | None,
        Option("--broker", "-b", metavar="BROKER", help="Only this broker (name or HOST:PORT)."),
    ] = None,
    min_lag: Annotated[
        int,
        Option("--min-lag", metavar="N", help="Only queues with at least this lag.", parse=whole),
    ] = 0,
) -> None:
    """Show the lag of all groups, one line per group and queue, with one request per broker.

    A queue without a committed offset has consumerOffset 0, because brokers report it like this:
    'mqadmin consumer lag GROUP' distinguishes the two.
    """
    listing = library.ConsumeStatsAdmin(session.admin).stats(
        cluster=cluster, broker=broker, min_lag=min_lag
    )
    session.emit_listing(CONSUMER_STATS, listing)
