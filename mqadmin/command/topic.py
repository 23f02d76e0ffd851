"""``mqadmin topic``: create, update, list, show, route, status, perm, delete."""

from typing import Annotated

from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.online import topics
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import (
    IfNotExists,
    OnlyCluster,
    TargetBroker,
    TargetCluster,
    Topic,
    UserOnly,
)
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import attribute, count, perm, perm_text, topic_name
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

TOPIC_HELP = "Name of the topic."
ATTRIBUTE_HELP = "Set (+name=value) or remove (-name) an attribute; may be repeated."


@NOUN.verb(
    "create",
    view=change_view("topic.create"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic create orders --queues 8 --cluster DefaultCluster",
        "mqadmin topic create steps --broker broker-a --attribute +message.type=FIFO --yes",
    ],
)
def create(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, parse=topic_name)],
    queues: Annotated[
        int, Option("--queues", "-q", help="Read and write queues per broker.", parse=count)
    ] = 8,
    read_queues: Annotated[
        int | None, Option("--read-queues", help="Read queues, if they differ.", parse=count)
    ] = None,
    write_queues: Annotated[
        int | None, Option("--write-queues", help="Write queues, if they differ.", parse=count)
    ] = None,
    permission: Annotated[
        int, Option("--perm", metavar="PERM", help="r, w or rw (or 2, 4, 6).", parse=perm)
    ] = 6,
    order: Annotated[bool, Option("--order", help="Mark the topic as ordered.")] = False,
    attributes: Annotated[
        list[str] | None,
        Option("--attribute", "-a", metavar="+K=V|-K", help=ATTRIBUTE_HELP, parse=attribute),
    ] = None,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a topic on the masters of a cluster or on one broker.

    The result is read back from each broker.
    """
    run_change(
        session,
        topics,
        lambda topics: topics.plan_create(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=permission,
            order=order,
            attributes=attributes or (),
            cluster=cluster,
            broker=broker,
            if_not_exists=if_not_exists,
        ),
        f"create topic {topic}?",
    )


@NOUN.verb(
    "update",
    view=change_view("topic.update"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic update orders --queues 16",
        "mqadmin topic update orders --write-queues 4 --broker broker-a --dry-run",
    ],
)
def update(
    session: Session,
    topic: Topic,
    queues: Annotated[
        int | None, Option("--queues", "-q", help="Read and write queues per broker.", parse=count)
    ] = None,
    read_queues: Annotated[
        int | None, Option("--read-queues", help="Read queues per broker.", parse=count)
    ] = None,
    write_queues: Annotated[
        int | None, Option("--write-queues", help="Write queues per broker.", parse=count)
    ] = None,
    permission: Annotated[
        int | None, Option("--perm", metavar="PERM", help="r, w or rw.", parse=perm)
    ] = None,
    order: Annotated[
        bool | None, Option("--order/--no-order", help="Mark the topic as ordered, or not.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        Option("--attribute", "-a", metavar="+K=V|-K", help=ATTRIBUTE_HELP, parse=attribute),
    ] = None,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Change settings of a topic.

    Omitted settings keep their values on each broker, unlike in Java's updateTopic, which resets
    them to defaults.
    """
    run_change(
        session,
        topics,
        lambda topics: topics.plan_update(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=permission,
            order=order,
            attributes=attributes or (),
            cluster=cluster,
            broker=broker,
        ),
        f"update topic {topic}?",
    )


@NOUN.verb(
    "list",
    view=TOPIC_LIST,
    examples=[
        "mqadmin topic list",
        "mqadmin topic list --cluster DefaultCluster --user -o json",
    ],
)
def list_topics(
    session: Session,
    cluster: OnlyCluster = None,
    user: UserOnly = False,
) -> None:
    """List topics, one line per topic and broker."""
    listing = topics(session.admin).list(cluster=cluster, include_system=not user)
    session.emit_listing(TOPIC_LIST, listing)


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


@NOUN.verb(
    "perm",
    view=change_view("topic.perm"),
    changes=True,
    plans=True,
    examples=["mqadmin topic perm orders r --broker broker-a", "mqadmin topic perm orders rw -y"],
)
def set_perm(
    session: Session,
    topic: Topic,
    permission: Annotated[int, Argument("PERM", help="r, w or rw (or 2, 4, 6).", parse=perm)],
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Change the permission of a topic.

    With 'r' consumers can finish while producers use other brokers, to drain a broker.
    """
    run_change(
        session,
        topics,
        lambda topics: topics.plan_perm(topic, permission, cluster=cluster, broker=broker),
        f"change the permission of topic {topic}?",
    )


@NOUN.verb(
    "delete",
    view=change_view("topic.delete"),
    changes=True,
    plans=True,
    examples=["mqadmin topic delete orders --dry-run", "mqadmin topic delete orders --yes"],
)
def delete(
    session: Session,
    topic: Topic,
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help="Delete it in this cluster.")
    ] = None,
) -> None:
    """Delete a topic from brokers and then from name servers.

    Its messages can no longer be read; consumer offsets of the topic become meaningless.
    """
    run_change(
        session,
        topics,
        lambda topics: topics.plan_delete(topic, cluster=cluster),
        f"delete topic {topic} and lose its messages?",
    )
