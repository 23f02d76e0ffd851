"""``mqadmin broker``: status, config show, ha."""

from typing import TYPE_CHECKING, Annotated

from mqadmin.command.execution.online import brokers
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.output.values import plain
from mqadmin.output.view import View

if TYPE_CHECKING:
    from mqadmin.admin.broker import BrokerConfigRecord, BrokerStatus
    from mqadmin.admin.result import Listing

NOUN = Noun(
    "broker",
    """Show the status and configuration of brokers, and change their roles.

    A broker is selected by its brokerName (shared by master and slaves) or by its address
    HOST:PORT (one process). The runtime status contains rates, latencies, queue depths and disk
    use; the configuration is the effective one, including defaults; ha is the replication between
    the brokers of one brokerName. promote and demote change which of them is the master.
    """,
)

BROKER_STATUS = View(
    "broker.status",
    ("brokerName", "brokerId", "address", "key", "value"),
    wide=("clusterName", "brokerName", "brokerId", "address", "key", "value"),
    keep=("value",),
)
BROKER_CONFIG = View(
    "broker.config.show",
    ("brokerName", "brokerId", "address", "key", "value"),
    wide=("clusterName", "brokerName", "brokerId", "address", "version", "key", "value"),
    keep=("value",),
)
BROKER_HA = View(
    "broker.ha",
    (
        "brokerName",
        "brokerId",
        "address",
        "role",
        "peer",
        "endOffset",
        "ackOffset",
        "gapBytes",
        "inSync",
        "bytesPerSecond",
    ),
    keep=("peer", "ackOffset", "gapBytes", "inSync"),
)

OneBroker = Annotated[
    str | None,
    Argument("BROKER", help="Broker name or HOST:PORT; default: all brokers.", complete="broker"),
]
OfCluster = Annotated[
    str | None, Option("--cluster", "-c", metavar="NAME", help="Only brokers of this cluster.")
]
Keys = Annotated[
    list[str] | None,
    Option(
        "--key", "-k", metavar="TEXT", help="Only keys that contain this text; may be repeated."
    ),
]


@NOUN.verb(
    "status",
    view=BROKER_STATUS,
    examples=["mqadmin broker status broker-a", "mqadmin broker status --key Tps -o json"],
)
def status(
    session: Session,
    broker: OneBroker = None,
    cluster: OfCluster = None,
    keys: Keys = None,
) -> None:
    """Show the runtime status of brokers, in RocketMQ's own keys."""
    listing = brokers(session.admin).status(broker=broker, cluster=cluster)
    _emit_maps(session, BROKER_STATUS, listing, "runtime", keys or [])


@NOUN.verb(
    "config show",
    view=BROKER_CONFIG,
    examples=["mqadmin broker config show broker-a --key flush"],
)
def config_show(
    session: Session,
    broker: OneBroker = None,
    cluster: OfCluster = None,
    keys: Keys = None,
) -> None:
    """Show the effective configuration of brokers, every key with its value."""
    listing = brokers(session.admin).config(broker=broker, cluster=cluster)
    _emit_maps(session, BROKER_CONFIG, listing, "config", keys or [])


@NOUN.verb(
    "ha",
    view=BROKER_HA,
    examples=["mqadmin broker ha", "mqadmin broker ha broker-a -o json"],
)
def ha(
    session: Session,
    broker: OneBroker = None,
    cluster: OfCluster = None,
) -> None:
    """Show the replication of brokers, one line per HA connection and side.

    A master shows each connected slave (peer): the end of its log, the offset that the slave
    has acknowledged, the gap between them, and whether it counts the slave as in sync
    (haMaxGapNotInSync). A slave shows its master: inSync is whether it is connected. Status 1 if a
    slave is not in sync.
    """
    listing = brokers(session.admin).ha(broker=broker, cluster=cluster)
    late = [item.peer or "its master" for item in listing.items if item.in_sync is False]
    if late:
        session.report(NO, "notInSync", f"not in sync: {', '.join(late)}")
    session.emit_listing(BROKER_HA, listing)


def _emit_maps(
    session: Session,
    view: View,
    listing: "Listing[BrokerStatus] | Listing[BrokerConfigRecord]",
    field: str,
    keys: list[str],
) -> None:
    """Print the map of each broker: one row per key in tables and CSV, the map itself in JSON."""
    wanted = [key.lower() for key in keys]
    items = [plain(item) for item in listing.items]
    for item in items:
        item[field] = {
            key: value
            for key, value in item[field].items()
            if not wanted or any(word in key.lower() for word in wanted)
        }
    if wanted and items and not any(item[field] for item in items):
        session.report(NO, "notFound", f"no key contains {' or '.join(keys)}")
    rows = items
    if session.is_flat:
        rows = [
            {**item, "key": key, "value": value}
            for item in items
            for key, value in item[field].items()
        ]
    session.emit_listing(view, listing, items=rows)
