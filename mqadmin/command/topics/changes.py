"""``mqadmin topic``: create, update, perm, delete."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import bulk_topics, topic_entry, topic_list, topics
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import (
    IfNotExists,
    TargetBroker,
    TargetCluster,
    Topic,
)
from mqadmin.command.framework.declare import Argument, Option
from mqadmin.command.framework.values import (
    attribute,
    perm,
    positive_int32,
    topic_name,
)
from mqadmin.command.topic import NOUN
from mqadmin.output.stdio import read_input
from mqadmin.settings import read_file, text_of

if TYPE_CHECKING:
    from mqadmin.admin.plans.topics import TopicEntry
    from mqadmin.admin.result import Plan
    from mqadmin.admin.topic import TopicAdmin

    PlanTopic = Callable[[TopicAdmin, TopicEntry], Plan]

LIST_LIMIT_BYTES = 16 * 1024 * 1024

OneTopic = Annotated[
    str | None,
    Argument("TOPIC", help="Name of the topic; or --file.", parse=topic_name, complete="topic"),
]
TopicList = Annotated[
    str | None,
    Option(
        "--file",
        "-f",
        metavar="FILE",
        help="List of topics: names, CSV or JSON; - for stdin.",
        complete="file",
    ),
]

Attributes = Annotated[
    list[str] | None,
    Option(
        "--attribute",
        "-a",
        metavar="+K=V|-K",
        help="Set (+name=value) or remove (-name) an attribute; may be repeated.",
        parse=attribute,
    ),
]


def _entries(session: Session, topic: str | None, file: str | None) -> "list[TopicEntry] | None":
    """Return the topics of the list, None without --file; UsageFault for neither and for both."""
    if (topic is None) == (file is None):
        raise UsageFault(
            f"{session.verb.path} needs a TOPIC or --file, one of them",
            f"mqadmin {session.verb.path} --help shows an example",
        )
    if file is None:
        return None
    data = read_input() if file == "-" else read_file(file, LIST_LIMIT_BYTES)
    return topic_list(text_of(data, file), file)


def _run_many(
    session: Session,
    entries: "Sequence[TopicEntry]",
    plan: "PlanTopic",
    question: str,
) -> None:
    """Run one plan of all topics of a list."""
    run_change(
        session,
        bulk_topics,
        lambda library: library.plan_many(
            session.verb.name, lambda topic: [plan(topic, entry) for entry in entries]
        ),
        question,
    )


def _put_topics(session: Session, file: str | None, given: "TopicEntry", plan: "PlanTopic") -> None:
    """Create or update one topic or all topics of a list.

    ``given`` contains TOPIC and the options; the options apply where an entry of the list has none.
    """
    entries = _entries(session, given.topic or None, file)
    word = session.verb.words[-1]
    if entries is None:
        question = f"{word} topic {given.topic}?"
        run_change(session, topics, lambda library: plan(library, given), question)
    else:
        merged = [entry.with_defaults(given) for entry in entries]
        _run_many(session, merged, plan, f"{word} {len(entries)} topics?")


@NOUN.verb(
    "create",
    view=change_view("topic.create"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic create orders --queues 8 --cluster DefaultCluster",
        "mqadmin topic create steps --broker broker-a --attribute +message.type=FIFO --yes",
        "mqadmin topic create --file topics.csv --if-not-exists --dry-run",
    ],
)
def create(
    session: Session,
    topic: OneTopic = None,
    file: TopicList = None,
    queues: Annotated[
        int,
        Option("--queues", "-q", help="Read and write queues per broker.", parse=positive_int32),
    ] = 8,
    read_queues: Annotated[
        int | None,
        Option("--read-queues", help="Read queues, if they differ.", parse=positive_int32),
    ] = None,
    write_queues: Annotated[
        int | None,
        Option("--write-queues", help="Write queues, if they differ.", parse=positive_int32),
    ] = None,
    permission: Annotated[
        int, Option("--perm", metavar="PERM", help="r, w or rw (or 2, 4, 6).", parse=perm)
    ] = 6,
    order: Annotated[bool, Option("--order", help="Mark the topic as ordered.")] = False,
    attributes: Attributes = None,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a topic on the masters of a cluster or on one broker.

    The result is read back from each broker. With --file all topics of a list are one plan: a line
    or object names topic, queues, readQueueNums, writeQueueNums, perm, order, attributes,
    clusterName, brokerName, all but the first optional; the options apply where it names nothing,
    and another cluster or broker than that of --cluster or --broker is refused. The output of
    'topic list -o json' and -o csv is such a list.
    """
    given = topic_entry()(
        topic=topic or "",
        queues=queues,
        read_queues=read_queues,
        write_queues=write_queues,
        perm=permission,
        order=order,
        attributes=attributes or (),
        cluster=cluster,
        broker=broker,
    )
    _put_topics(
        session,
        file,
        given,
        lambda library, entry: library.plan_create(
            entry.topic, **entry.settings(), if_not_exists=if_not_exists
        ),
    )


@NOUN.verb(
    "update",
    view=change_view("topic.update"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin topic update orders --queues 16",
        "mqadmin topic update orders --write-queues 4 --broker broker-a --dry-run",
        "mqadmin topic update --file topics.txt --perm r --plan drain.plan",
    ],
)
def update(
    session: Session,
    topic: OneTopic = None,
    file: TopicList = None,
    queues: Annotated[
        int | None,
        Option("--queues", "-q", help="Read and write queues per broker.", parse=positive_int32),
    ] = None,
    read_queues: Annotated[
        int | None, Option("--read-queues", help="Read queues per broker.", parse=positive_int32)
    ] = None,
    write_queues: Annotated[
        int | None, Option("--write-queues", help="Write queues per broker.", parse=positive_int32)
    ] = None,
    permission: Annotated[
        int | None, Option("--perm", metavar="PERM", help="r, w or rw.", parse=perm)
    ] = None,
    order: Annotated[
        bool | None, Option("--order/--no-order", help="Mark the topic as ordered, or not.")
    ] = None,
    attributes: Attributes = None,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Change settings of a topic.

    Omitted settings keep their values on each broker, unlike in Java's updateTopic, which resets
    them to defaults. With --file all topics of a list are one plan; see 'topic create'.
    """
    given = topic_entry()(
        topic=topic or "",
        queues=queues,
        read_queues=read_queues,
        write_queues=write_queues,
        perm=permission,
        order=order,
        attributes=attributes or (),
        cluster=cluster,
        broker=broker,
    )
    _put_topics(
        session,
        file,
        given,
        lambda library, entry: library.plan_update(entry.topic, **entry.settings()),
    )


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
    examples=[
        "mqadmin topic delete orders --dry-run",
        "mqadmin topic delete orders --yes",
        "mqadmin topic delete --file old-topics.txt --plan delete.plan",
    ],
)
def delete(
    session: Session,
    topic: OneTopic = None,
    file: TopicList = None,
    cluster: Annotated[
        str | None, Option("--cluster", "-c", metavar="NAME", help="Delete it in this cluster.")
    ] = None,
) -> None:
    """Delete a topic from brokers and then from name servers.

    Its messages can no longer be read; consumer offsets of the topic become meaningless. With
    --file all topics of a list are one plan; a topic is deleted in the cluster that the list names.
    """
    entries = _entries(session, topic, file)
    if entries is None:
        name = topic or ""
        question = f"delete topic {topic} and lose its messages?"
        run_change(
            session, topics, lambda library: library.plan_delete(name, cluster=cluster), question
        )
        return
    given = topic_entry()(topic="", cluster=cluster)
    merged = [entry.with_defaults(given) for entry in entries]
    places = sorted({(entry.topic, entry.cluster or "") for entry in merged})
    _run_many(
        session,
        [topic_entry()(topic=name, cluster=place or None) for name, place in places],
        lambda library, entry: library.plan_delete(entry.topic, cluster=entry.cluster),
        f"delete {len({name for name, _ in places})} topics and lose their messages?",
    )
