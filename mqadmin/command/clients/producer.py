"""``mqadmin producer``: list, connections."""

from typing import Annotated

from mqadmin.admin.clients import producers as library
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import NO
from mqadmin.command.framework.common_options import OnlyCluster
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.output.view import View

NOUN = Noun(
    "producer",
    """Show connected producers.

    A producer sends heartbeats to the brokers of the topics it sends to. A broker forgets it when
    the connection closes, or 120 s after the last heartbeat. The producer group matters for
    transactions: any producer of the group can answer a check.
    """,
)

PRODUCER_LIST = View(
    "producer.list",
    (
        *("producerGroup", "clientId", "clientAddr", "language", "version", "lastUpdateTime"),
        "brokerName",
    ),
)
PRODUCER_CONNECTIONS = View("producer.connections", ("group", "connections"), single=True)


@NOUN.verb(
    "list",
    view=PRODUCER_LIST,
    examples=["mqadmin producer list", "mqadmin producer list --group shop --broker broker-a"],
)
def list_producers(
    session: Session,
    group: Annotated[
        str | None, Option("--group", "-g", metavar="GROUP", help="Only this producer group.")
    ] = None,
    cluster: OnlyCluster = None,
    broker: Annotated[
        str | None,
        Option("--broker", "-b", metavar="BROKER", help="Only this broker (name or HOST:PORT)."),
    ] = None,
) -> None:
    """List the connected producers of each broker."""
    listing = library.ProducerAdmin(session.admin).list(group=group, cluster=cluster, broker=broker)
    session.emit_listing(PRODUCER_LIST, listing)


@NOUN.verb(
    "connections",
    view=PRODUCER_CONNECTIONS,
    examples=["mqadmin producer connections shop"],
)
def connections(
    session: Session,
    group: Annotated[str, Argument("GROUP", help="Name of the producer group.")],
) -> None:
    """Show the connected clients of a producer group."""
    found = library.ProducerAdmin(session.admin).connections(group)
    if not found.connections and not found.errors:
        session.report(
            NO,
            "notFound",
            f"no client of producer group {group} is connected",
            "mqadmin producer list lists the connected producers",
        )
    session.emit_one(PRODUCER_CONNECTIONS, found)
    session.report_targets(found.errors, some_worked=bool(found.connections))
