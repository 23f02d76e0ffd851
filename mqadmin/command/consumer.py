"""``mqadmin consumer``: list, connections."""

from typing import Annotated

from mqadmin.command.execution.online import consumers
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.common_options import Group
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
