"""``mqadmin topic static``: show, create, update, remap."""

from typing import Annotated

from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.online import static_topics
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import IfNotExists, Topic
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import positive_int32, topic_name
from mqadmin.command.topic import NOUN
from mqadmin.output.view import View

STATIC_SHOW = View(
    "topic.static.show",
    (
        *("topic", "queueId", "gen", "brokerName", "brokerQueueId", "logicOffset", "startOffset"),
        *("endOffset", "sends", "epoch"),
    ),
)

NewTopic = Annotated[str, Argument("TOPIC", help="Name of the topic.", parse=topic_name)]
TotalQueues = Annotated[
    int,
    Option(
        "--queues", "-q", metavar="N", help="Queues of the topic in total.", parse=positive_int32
    ),
]
Brokers = Annotated[
    list[str] | None,
    Option(
        "--broker",
        "-b",
        metavar="NAME",
        help="Broker that gets queues; may be repeated.",
        complete="broker",
    ),
]
Clusters = Annotated[
    list[str] | None,
    Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="Cluster whose masters get queues; may be repeated; default: the only cluster.",
    ),
]
MoreClusters = Annotated[
    list[str] | None,
    Option(
        "--cluster", "-c", metavar="NAME", help="Cluster whose masters get queues, too; repeatable."
    ),
]


@NOUN.verb(
    "static show",
    view=STATIC_SHOW,
    examples=["mqadmin topic static show orders", "mqadmin topic static show orders -o json"],
)
def static_show(session: Session, topic: Topic) -> None:
    """Show the queues of a static topic, one line per segment, oldest first.

    queueId and logicOffset are those that clients see; brokerQueueId, startOffset and endOffset
    are those of the broker's queue that contains the messages. sends marks the segment that
    receives new messages. A logicOffset of - is not decided: a move was interrupted.
    """
    listing = static_topics(session.admin).show(topic)
    session.emit_listing(STATIC_SHOW, listing)


@NOUN.verb(
    "static create",
    view=change_view("topic.static.create"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic static create orders --queues 8 --cluster DefaultCluster",
        "mqadmin topic static create orders --queues 8 --broker broker-a --broker broker-b -y",
    ],
)
def static_create(
    session: Session,
    topic: NewTopic,
    queues: TotalQueues,
    broker: Brokers = None,
    cluster: Clusters = None,
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a static topic, whose number of queues does not depend on its brokers.

    Its queues are spread evenly over the brokers, and can be moved later without new queue ids:
    see 'topic static remap'. Brokers and clients of version 5.0 and later know static topics.
    """
    run_change(
        session,
        static_topics,
        lambda library: library.plan_create(
            topic,
            queues,
            brokers=broker or (),
            clusters=cluster or (),
            if_not_exists=if_not_exists,
        ),
        f"create static topic {topic}?",
    )


@NOUN.verb(
    "static update",
    view=change_view("topic.static.update"),
    changes=True,
    plans=True,
    examples=["mqadmin topic static update orders --queues 16 --broker broker-c --dry-run"],
)
def static_update(
    session: Session,
    topic: Topic,
    queues: TotalQueues,
    broker: Brokers = None,
    cluster: MoreClusters = None,
) -> None:
    """Add queues to a static topic; those it has stay where they are.

    New queues go to the brokers with the fewest: those of the topic, and those named here.
    """
    run_change(
        session,
        static_topics,
        lambda library: library.plan_update(
            topic, queues, brokers=broker or (), clusters=cluster or ()
        ),
        f"add queues to static topic {topic}?",
    )


@NOUN.verb(
    "static remap",
    view=change_view("topic.static.remap"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic static remap orders --broker broker-b --broker broker-c --dry-run",
        "mqadmin topic static remap orders --cluster DefaultCluster --plan move.plan",
    ],
)
def static_remap(
    session: Session,
    topic: Topic,
    broker: Brokers = None,
    cluster: Clusters = None,
) -> None:
    """Move the queues of a static topic to the named brokers, spread evenly.

    Messages stay on the old brokers and remain readable there; new ones go to the new brokers.
    Producers update their route when the old broker refuses a message. The logical offsets of a
    moved queue continue at a multiple of 10000 after its last one: the lag of a group includes the
    gap until its consumers have passed it. An interrupted move is completed by the same command.
    """
    run_change(
        session,
        static_topics,
        lambda library: library.plan_remap(topic, brokers=broker or (), clusters=cluster or ()),
        f"move queues of static topic {topic}?",
    )
