"""``mqadmin consumer``: list, lag, connections."""

from typing import Annotated

from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.online import consumers
from mqadmin.command.session import Session
from mqadmin.command.status import NO
from mqadmin.output.view import View

NOUN = Noun(
    "consumer",
    """Show consumers: connected clients and lag.

    Consumers of one group share its message queues. For each queue the group commits a consumer
    offset: the next message it will ask for. Lag is the max offset of the queue minus the
    consumer offset, so 0 means everything is done. A group can be known by its offsets alone
    while nobody of it is online; lag then grows with each message sent.
    """,
)

CONSUMER_LIST = View(
    "consumer.list",
    ("group", "clients", "consumeType", "messageModel", "version", "consumeTps", "lag"),
)
CONSUMER_LAG = View(
    "consumer.lag",
    (
        "topic",
        "brokerName",
        "queueId",
        "brokerOffset",
        "consumerOffset",
        "lag",
        "lagSeconds",
        "inflight",
        "lastTime",
        "clientId",
        "state",
    ),
    keep=("consumerOffset", "lag"),
)
CONSUMER_CONNECTIONS = View(
    "consumer.connections",
    (
        "group",
        "consumeType",
        "messageModel",
        "consumeFromWhere",
        "connections",
        "subscriptions",
    ),
    single=True,
)

Group = Annotated[str, Argument("GROUP", help="Name of the consumer group.", complete="group")]


@NOUN.verb(
    "list",
    view=CONSUMER_LIST,
    examples=["mqadmin consumer list", "mqadmin consumer list --no-lag -o ndjson"],
)
def list_consumers(
    session: Session,
    lag: Annotated[
        bool, Option("--lag/--no-lag", help="Ask for lag and rate of each group too.")
    ] = True,
    system: Annotated[bool, Option("--system", help="Show system groups too.")] = False,
) -> None:
    """List consumer groups with their online clients and total lag."""
    listing = consumers(session.admin).list(include_system=system, lag=lag)
    session.emit_listing(CONSUMER_LIST, listing)


@NOUN.verb(
    "lag",
    view=CONSUMER_LAG,
    examples=[
        "mqadmin consumer lag billing",
        "mqadmin consumer lag billing --topic orders --clients -o json",
    ],
)
def show_lag(
    session: Session,
    group: Group,
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Only this topic.", complete="topic"),
    ] = None,
    clients: Annotated[
        bool, Option("--clients", "-s", help="Ask each client which queues it holds.")
    ] = False,
) -> None:
    """Show how far a group is behind, queue by queue.

    State 'noOffset' means nothing was ever committed there, 'ahead' an offset beyond the end of
    the queue, 'belowMin' one whose messages are already deleted; their lag needs that word beside
    it to be understood.
    """
    listing = consumers(session.admin).lag(group, topic=topic, clients=clients)
    found = session.emit_listing(
        CONSUMER_LAG,
        listing,
        nothing=f"group {group} has no offset on any broker",
        hint="mqadmin consumer list and mqadmin group list show the groups there are",
    )
    if found and session.is_table:
        known = [max(0, item.lag) for item in listing.items if item.lag is not None]
        total = str(sum(known)) if known else "-"
        unknown = found - len(known)
        rest = f", {unknown} without a committed offset or an answer" if unknown else ""
        session.note(f"total lag {total} in {len(known)} queues{rest}")


@NOUN.verb(
    "connections",
    view=CONSUMER_CONNECTIONS,
    examples=["mqadmin consumer connections billing"],
)
def connections(session: Session, group: Group) -> None:
    """Show the clients of a group and what they subscribe to."""
    found = consumers(session.admin).connections(group)
    if not found.connections and not found.errors:
        session.report(
            NO,
            "notFound",
            f"nobody of group {group} is online",
            f"mqadmin consumer lag {group} shows how far it came while it was",
        )
    session.emit_one(CONSUMER_CONNECTIONS, found)
    session.report_targets(found.errors, some_worked=bool(found.connections))
