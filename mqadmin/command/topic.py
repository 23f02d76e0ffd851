"""``mqadmin topic``: create, update, list, show, route, status, perm, delete."""

from typing import Annotated

from mqadmin.command.change import change_view, run_change
from mqadmin.command.declare import Argument, Noun, Option
from mqadmin.command.online import topics
from mqadmin.command.session import Session
from mqadmin.command.values import attribute, count, perm, perm_text, topic_name
from mqadmin.output.view import View

NOUN = Noun(
    "topic",
    """Create, inspect, change and delete topics.

    A topic is a name under which messages are stored. On each of its brokers it has message
    queues: writeQueueNums of them take new messages, readQueueNums are read by consumers, and
    perm says whether either is allowed (RW-, R--, -W-). The brokers own a topic's configuration
    and tell it to the name servers, which answer clients with the route: which broker has how
    many queues, and at which address. Names like %RETRY%group and %DLQ%group are topics too: the
    waiting room and the grave of a consumer group's failed messages.
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
TARGET_CLUSTER = "Change it on the masters of this cluster."
TARGET_BROKER = "Change it on this broker only (name or HOST:PORT)."


@NOUN.verb(
    "create",
    view=change_view("topic.create"),
    changes=True,
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
    order: Annotated[bool, Option("--order", help="Mark the topic as an ordered one.")] = False,
    attributes: Annotated[
        list[str] | None,
        Option("--attribute", "-a", metavar="+K=V|-K", help=ATTRIBUTE_HELP, parse=attribute),
    ] = None,
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help=TARGET_CLUSTER)
    ] = None,
    broker: Annotated[
        str | None, Option("--broker", "-b", metavar="BROKER", help=TARGET_BROKER)
    ] = None,
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="An existing topic is fine and stays as it is.")
    ] = False,
) -> None:
    """Create a topic on the masters of a cluster or on one broker.

    Without --cluster and --broker the only cluster there is is meant. The result is read back
    from each broker.
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
    examples=[
        "mqadmin topic update orders --queues 16",
        "mqadmin topic update orders --write-queues 4 --broker broker-a --dry-run",
    ],
)
def update(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
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
        bool | None, Option("--order/--no-order", help="Mark the topic as an ordered one or not.")
    ] = None,
    attributes: Annotated[
        list[str] | None,
        Option("--attribute", "-a", metavar="+K=V|-K", help=ATTRIBUTE_HELP, parse=attribute),
    ] = None,
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help=TARGET_CLUSTER)
    ] = None,
    broker: Annotated[
        str | None, Option("--broker", "-b", metavar="BROKER", help=TARGET_BROKER)
    ] = None,
) -> None:
    """Change what is named about a topic, and nothing else.

    Each broker's present configuration is read first; options that are not given keep their
    values there, unlike Java's updateTopic, which resets them to defaults.
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
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help="Only this cluster.")
    ] = None,
    user: Annotated[bool, Option("--user", help="Leave out system, retry and DLQ topics.")] = False,
) -> None:
    """List topics, one line per topic and broker."""
    listing = topics(session.admin).list(cluster=cluster, include_system=not user)
    session.emit_listing(TOPIC_LIST, listing)


@NOUN.verb("show", view=TOPIC_SHOW, examples=["mqadmin topic show orders"])
def show(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
) -> None:
    """Show the configuration of a topic on each of its brokers."""
    listing = topics(session.admin).show(topic)
    session.emit_listing(
        TOPIC_SHOW,
        listing,
        nothing=f"no broker has topic {topic}",
        hint="mqadmin topic list shows the topics there are",
    )


@NOUN.verb("route", view=TOPIC_ROUTE, examples=["mqadmin topic route orders -o json"])
def route(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
) -> None:
    """Show the route of a topic: the brokers and queues that clients are told of."""
    session.emit_one(TOPIC_ROUTE, topics(session.admin).route(topic))


@NOUN.verb("status", view=TOPIC_STATUS, examples=["mqadmin topic status orders"])
def status(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
) -> None:
    """Show the queues of a topic: oldest and next queue offset, time of the last message."""
    listing = topics(session.admin).status(topic)
    session.emit_listing(TOPIC_STATUS, listing, nothing=f"topic {topic} has no queues")


@NOUN.verb(
    "perm",
    view=change_view("topic.perm"),
    changes=True,
    examples=["mqadmin topic perm orders r --broker broker-a", "mqadmin topic perm orders rw -y"],
)
def set_perm(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
    permission: Annotated[int, Argument("PERM", help="r, w or rw (or 2, 4, 6).", parse=perm)],
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help=TARGET_CLUSTER)
    ] = None,
    broker: Annotated[
        str | None, Option("--broker", "-b", metavar="BROKER", help=TARGET_BROKER)
    ] = None,
) -> None:
    """Change the permission of a topic and nothing else.

    'r' lets consumers finish while producers go elsewhere: the gentle way to drain a broker.
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
    examples=["mqadmin topic delete orders --dry-run", "mqadmin topic delete orders --yes"],
)
def delete(
    session: Session,
    topic: Annotated[str, Argument("TOPIC", help=TOPIC_HELP, complete="topic")],
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
