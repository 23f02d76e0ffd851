"""``mqadmin consumer running`` and ``mqadmin consumer stack``."""

from typing import Annotated

from mqadmin.admin.clients import running as library
from mqadmin.command.consumer import NOUN
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Group
from mqadmin.command.framework.declare import Option
from mqadmin.output.view import View

CONSUMER_RUNNING = View(
    "consumer.running",
    (
        *("clientId", "clientAddr", "language", "version", "consumeType", "orderly"),
        *("startTime", "queueCount", "cachedMessages"),
    ),
)
CONSUMER_STACK = View("consumer.stack", ("clientId", "thread", "state", "frame"))

OnlyClient = Annotated[
    str | None, Option("--client", "-i", metavar="ID", help="Only the client with this id.")
]
OnlyBroker = Annotated[
    str | None,
    Option(
        "--broker", "-b", metavar="NAME", help="Only clients that are connected to this broker."
    ),
]


@NOUN.verb(
    "running",
    view=CONSUMER_RUNNING,
    examples=[
        "mqadmin consumer running billing",
        "mqadmin consumer running billing --client 10.0.0.1@4711 -o json",
    ],
)
def running(
    session: Session, group: Group, client: OnlyClient = None, broker: OnlyBroker = None
) -> None:
    """Show the running information of each client: settings, queues, rates.

    The broker forwards the request to the client. -o json and -o wide contain the properties, the
    subscriptions, each queue with its cached messages, and the rates of each topic.
    """
    listing = library.RunningAdmin(session.admin).running(group, client_id=client, broker=broker)
    session.emit_listing(
        CONSUMER_RUNNING,
        listing,
        nothing=f"no client of group {group} is connected",
        hint=f"mqadmin consumer lag {group} shows its committed offsets",
    )


@NOUN.verb(
    "stack",
    view=CONSUMER_STACK,
    examples=[
        "mqadmin consumer stack billing --client 10.0.0.1@4711",
        "mqadmin consumer stack billing -o json",
    ],
)
def stack(
    session: Session, group: Group, client: OnlyClient = None, broker: OnlyBroker = None
) -> None:
    """Show the stacks of each client's threads, one line per thread; all frames with -o json."""
    listing = library.RunningAdmin(session.admin).stacks(group, client_id=client, broker=broker)
    session.emit_listing(
        CONSUMER_STACK,
        listing,
        nothing=f"no client of group {group} is connected",
        hint=f"mqadmin consumer lag {group} shows its committed offsets",
    )
