"""``mqadmin consumer``: list, lag, connections."""

from typing import Annotated

from mqadmin.command.execution.online import consumers
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.common_options import Group, OnlyTopic
from mqadmin.command.framework.declare import Noun, Option
from mqadmin.output.view import View

NOUN = Noun(
    "consumer",
    """Show consumers: connected clients and lag.

    Consumers of a group share its message queues. For each queue the group commits a consumer
    offset, the offset of the next message to consume. Lag is the max offset of the queue minus
    the consumer offset; 0 means that every message was consumed. A group without connected
    clients keeps its offsets; its lag then grows with each message sent.
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


@NOUN.verb(
    "list",
    view=CONSUMER_LIST,
    examples=["mqadmin consumer list", "mqadmin consumer list --no-lag -o ndjson"],
)
def list_consumers(
    session: Session,
    lag: Annotated[bool, Option("--lag/--no-lag", help="Query lag and rate of each group.")] = True,
    system: Annotated[bool, Option("--system", help="Include system groups.")] = False,
) -> None:
    """List consumer groups with connected clients and total lag."""
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
    topic: OnlyTopic = None,
    clients: Annotated[
        bool, Option("--clients", "-s", help="Query each client for its assigned queues.")
    ] = False,
    pop: Annotated[
        bool, Option("--pop", help="Count messages in flight by the check points of POP.")
    ] = False,
) -> None:
    """Show the lag of a group for each queue.

    A group that consumes by POP commits the offset when messages are popped: with --pop, inflight
    is the number of messages that were popped and are neither acknowledged nor delivered again.

    State 'noOffset': no offset was committed. 'ahead': the committed offset is past the end of
    the queue. 'belowMin': it is below the min offset, its messages are deleted.
    """
    listing = consumers(session.admin).lag(group, topic=topic, clients=clients, pop=pop)
    found = session.emit_listing(
        CONSUMER_LAG,
        listing,
        nothing=f"group {group} has no offset on any broker",
        hint="mqadmin consumer list and mqadmin group list list the groups",
    )
    if found and session.is_table:
        known = [max(0, item.lag) for item in listing.items if item.lag is not None]
        total = str(sum(known)) if known else "-"
        unknown = found - len(known)
        rest = f", {unknown} without a committed offset or a response" if unknown else ""
        session.note(f"total lag {total} in {len(known)} queues{rest}")


@NOUN.verb(
    "connections",
    view=CONSUMER_CONNECTIONS,
    examples=["mqadmin consumer connections billing"],
)
def connections(session: Session, group: Group) -> None:
    """Show the connected clients of a group and their subscriptions."""
    found = consumers(session.admin).connections(group)
    if not found.connections and not found.errors:
        session.report(
            NO,
            "notFound",
            f"no client of group {group} is connected",
            f"mqadmin consumer lag {group} shows its committed offsets",
        )
    session.emit_one(CONSUMER_CONNECTIONS, found)
    session.report_targets(found.errors, some_worked=bool(found.connections))
