"""``mqadmin topic``: list, show, route, status, allocate."""

from typing import Annotated

from mqadmin.command.execution.online import allocation_records, topics
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import OnlyCluster, Topic, UserOnly
from mqadmin.command.framework.declare import Argument, Noun
from mqadmin.command.framework.values import perm_text
from mqadmin.output.view import View

NOUN = Noun(
    "topic",
    """Create, inspect, change and delete topics.

    A topic has message queues on each of its brokers: writeQueueNums of them accept new messages,
    readQueueNums are read by consumers; perm is the permission (RW-, R--, -W-). Brokers store the
    configuration of a topic and register it with the name servers, from which clients get the
    route: the brokers of the topic, their addresses and numbers of queues. %RETRY%group and
    %DLQ%group are topics, too: the retry topic and the dead-letter queue of a consumer group.
    """,
)

TOPIC_COLUMNS = (
    "topic",
    "clusterName",
    "brokerName",
    "readQueueNums",
    "writeQueueNums",
    "perm",
    "order",
    "attributes",
)


PERM_TEXT = {"perm": perm_text}
TOPIC_LIST = View("topic.list", TOPIC_COLUMNS, texts=PERM_TEXT)
TOPIC_SHOW = View("topic.show", TOPIC_COLUMNS, texts=PERM_TEXT)
TOPIC_ROUTE = View(
    "topic.route",
    ("topic", "orderTopicConf", "brokers", "queues"),
    single=True,
    texts=PERM_TEXT,
)
TOPIC_STATUS = View(
    "topic.status",
    ("brokerName", "queueId", "minOffset", "maxOffset", "lastUpdateTime"),
)
ALLOCATE = View("topic.allocate", ("clientId", "brokerName", "queueId"))


@NOUN.verb(
    "list",
    view=TOPIC_LIST,
    examples=[
        "mqadmin topic list",
        "mqadmin topic list 'order*' --user",
        "mqadmin topic list --cluster DefaultCluster --user -o json",
        "mqadmin topic list --user -o 'jsonpath=$.items[*].topic'",
    ],
)
def list_topics(
    session: Session,
    pattern: Annotated[
        str | None,
        Argument("PATTERN", help="Only topics with such names: * any text, ? a character, [ab]."),
    ] = None,
    cluster: OnlyCluster = None,
    user: UserOnly = False,
) -> None:
    """List topics, one line per topic and broker."""
    library = topics(session.admin)
    listing = library.list(cluster=cluster, include_system=not user)
    if pattern is None:
        session.emit_listing(TOPIC_LIST, listing)
        return
    items = library.named_like(listing.items, pattern)
    nothing = f"no topic has a name like {pattern}"
    session.emit_listing(TOPIC_LIST, listing, items=items, nothing=nothing)


@NOUN.verb("show", view=TOPIC_SHOW, examples=["mqadmin topic show orders"])
def show(
    session: Session,
    topic: Topic,
) -> None:
    """Show the configuration of a topic on each of its brokers."""
    listing = topics(session.admin).show(topic)
    session.emit_listing(
        TOPIC_SHOW,
        listing,
        nothing=f"no broker has topic {topic}",
        hint="mqadmin topic list lists the topics",
    )


@NOUN.verb("route", view=TOPIC_ROUTE, examples=["mqadmin topic route orders -o json"])
def route(
    session: Session,
    topic: Topic,
) -> None:
    """Show the route of a topic: its brokers and queues as clients see them."""
    session.emit_one(TOPIC_ROUTE, topics(session.admin).route(topic))


@NOUN.verb("status", view=TOPIC_STATUS, examples=["mqadmin topic status orders"])
def status(
    session: Session,
    topic: Topic,
) -> None:
    """Show the queues of a topic: oldest and next queue offset, time of the last message."""
    listing = topics(session.admin).status(topic)
    session.emit_listing(TOPIC_STATUS, listing, nothing=f"topic {topic} has no queues")


@NOUN.verb("allocate", view=ALLOCATE, examples=["mqadmin topic allocate orders a@1 b@1 c@1"])
def allocate(
    session: Session,
    topic: Topic,
    clients: Annotated[list[str], Argument("CLIENT", help="Ids of the clients of a group.")],
) -> None:
    """Show which queues each client of a group would get with the average strategy.

    The library of clients sorts queues and client ids, so that all clients compute the same.
    """
    rows = allocation_records(session.admin, topic, clients)
    session.emit(ALLOCATE, rows, nothing=f"topic {topic} has no readable queue")
