"""``mqadmin broker`` config set and diff, connections, clean, stats."""

from typing import Annotated

from mqadmin.admin.brokers.maintenance import BrokerMaintenance
from mqadmin.admin.brokers.producers import producers
from mqadmin.admin.brokers.settings import BrokerSettings
from mqadmin.admin.brokers.statistics import statistics
from mqadmin.command.broker import NOUN
from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.common_options import OnlyCluster, OnlyTopic
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.maintenance.namesrv import settings_of
from mqadmin.output.view import View

CONNECTIONS = View(
    "broker.connections",
    (
        *("brokerName", "producerGroup", "clientId", "clientAddr", "language", "version"),
        "lastUpdateTimestamp",
    ),
)
STATS = View(
    "broker.stats",
    (*("topic", "group", "accumulation", "inTps", "outTps", "inMsg24Hour", "outMsg24Hour"),),
    keep=("group", "accumulation", "outTps", "outMsg24Hour"),
)
DIFF = View("broker.config.diff", ("key", "values"))

OneBroker = Annotated[
    str | None, Argument("BROKER", help="Broker name or HOST:PORT.", complete="broker")
]
Replicas = Annotated[bool, Option("--replicas", help="Also the slaves.")]


@NOUN.verb(
    "config set",
    view=change_view("broker.config.set"),
    examples=[
        "mqadmin broker config set broker-a brokerPermission=4 --dry-run",
        "mqadmin broker config set --cluster DefaultCluster fileReservedTime=48 --yes",
    ],
    changes=True,
)
def config_set(
    session: Session,
    words: Annotated[
        list[str],
        Argument("[BROKER] KEY=VALUE", help="Broker name or HOST:PORT, and new values."),
    ],
    cluster: OnlyCluster = None,
    replicas: Replicas = False,
) -> None:
    """Change settings of a broker, or of the masters of a cluster, and read them back.

    A key that a broker does not have, or a value of another type, is refused: Java brokers drop
    such a key and report success.
    """
    broker = None if "=" in words[0] else words[0]
    values = settings_of(words if broker is None else words[1:])
    if not values or (broker is None) == (cluster is None):
        raise UsageFault(
            "broker config set needs a target and settings",
            "write BROKER KEY=VALUE, or --cluster NAME KEY=VALUE",
        )
    run_change(
        session,
        BrokerSettings,
        lambda library: library.plan_set(values, broker=broker, cluster=cluster, replicas=replicas),
        f"Set {', '.join(values)} on {broker or cluster}?",
    )


@NOUN.verb(
    "config diff",
    view=DIFF,
    examples=["mqadmin broker config diff", "mqadmin broker config diff --cluster C --all"],
)
def config_diff(
    session: Session,
    cluster: OnlyCluster = None,
    everything: Annotated[
        bool, Option("--all", help="Also names, ids, addresses and paths.")
    ] = False,
) -> None:
    """Show the settings that differ between brokers; status 1 if there are any."""
    listing = BrokerSettings(session.admin).differences(cluster=cluster, everything=everything)
    session.emit_listing(DIFF, listing)
    if listing.items and not session.status:
        session.status = NO


@NOUN.verb(
    "connections",
    view=CONNECTIONS,
    examples=["mqadmin broker connections broker-a", "mqadmin broker connections -o json"],
)
def connections(session: Session, broker: OneBroker = None, cluster: OnlyCluster = None) -> None:
    """List the producers that are connected to brokers."""
    listing = producers(session.admin, broker=broker, cluster=cluster)
    session.emit_listing(CONNECTIONS, listing)


@NOUN.verb(
    "stats",
    view=STATS,
    examples=["mqadmin broker stats --topic orders", "mqadmin broker stats --active"],
)
def stats(
    session: Session,
    topic: OnlyTopic = None,
    cluster: OnlyCluster = None,
    active: Annotated[bool, Option("--active", help="Only topics with messages.")] = False,
) -> None:
    """Show rates and backlog per topic and consumer group, over all brokers."""
    listing = statistics(session.admin, topic=topic, cluster=cluster)
    items = [
        item for item in listing.items if not active or item.in_msg24_hour or item.out_msg24_hour
    ]
    session.emit_listing(STATS, listing, items=items)


def _clean(
    session: Session, kind: str, broker: str | None, cluster: str | None, question: str
) -> None:
    if (broker is None) == (cluster is None):
        raise UsageFault(
            f"broker clean {kind} needs a target", "name a BROKER, or a cluster with --cluster"
        )
    run_change(
        session,
        BrokerMaintenance,
        lambda library: library.plan_clean(kind, broker=broker, cluster=cluster),
        f"{question} on {broker or cluster}?",
    )


@NOUN.verb(
    "clean expired-queues",
    view=change_view("broker.clean.expired-queues"),
    examples=["mqadmin broker clean expired-queues broker-a --yes"],
    changes=True,
)
def clean_expired_queues(
    session: Session, broker: OneBroker = None, cluster: OnlyCluster = None
) -> None:
    """Delete ConsumeQueue files that end before the start of the CommitLog."""
    _clean(session, "expired-queues", broker, cluster, "Delete expired ConsumeQueue files")


@NOUN.verb(
    "clean unused-topics",
    view=change_view("broker.clean.unused-topics"),
    examples=["mqadmin broker clean unused-topics --cluster DefaultCluster --dry-run"],
    changes=True,
)
def clean_unused_topics(
    session: Session, broker: OneBroker = None, cluster: OnlyCluster = None
) -> None:
    """Delete the ConsumeQueues of topics that do not exist."""
    _clean(session, "unused-topics", broker, cluster, "Delete the queues of unused topics")


@NOUN.verb(
    "clean expired-log",
    view=change_view("broker.clean.expired-log"),
    examples=["mqadmin broker clean expired-log broker-a --yes"],
    changes=True,
)
def clean_expired_log(
    session: Session, broker: OneBroker = None, cluster: OnlyCluster = None
) -> None:
    """Delete CommitLog files older than fileReservedTime now, at any hour."""
    _clean(session, "expired-log", broker, cluster, "Delete expired CommitLog files")
