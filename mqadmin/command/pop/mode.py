"""``mqadmin consumer mode``."""

from typing import Annotated, Literal

from mqadmin.admin.pop import modes as library
from mqadmin.command.consumer import NOUN
from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import Group, TargetBroker, TargetCluster
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import int32
from mqadmin.output.view import View

SET_MODE = change_view("consumer.mode.set")
CONSUMER_MODE = View("consumer.mode", ("group", "topic", "brokerName", "mode", "popShareQueueNum"))
ASSIGNMENTS = View(
    "consumer.mode.assignments", ("clientId", "topic", "brokerName", "queueId", "mode")
)


@NOUN.verb(
    "mode",
    view=(SET_MODE, CONSUMER_MODE, ASSIGNMENTS),
    changes=True,
    plans=True,
    examples=[
        "mqadmin consumer mode billing",
        "mqadmin consumer mode billing --topic orders --set pop --yes",
        "mqadmin consumer mode billing --topic orders --assignments",
    ],
)
def mode(
    session: Session,
    group: Group,
    topic: Annotated[
        str | None,
        Option("--topic", "-t", metavar="TOPIC", help="Only this topic.", complete="topic"),
    ] = None,
    wanted: Annotated[
        Literal["pull", "pop"] | None, Option("--set", help="Set the mode for the topic.")
    ] = None,
    share: Annotated[
        int | None,
        Option(
            "--share",
            metavar="N",
            help="With --set pop: clients that share a queue further than its owner; 0: all.",
            parse=int32,
        ),
    ] = None,
    assignments: Annotated[
        bool, Option("--assignments", help="Show the queues that brokers assign to each client.")
    ] = False,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Show or set whether a group's push consumers receive a topic by PULL or by POP (5.x).

    Java clients apply it with clientRebalance=false: the brokers then assign the queues. A group
    and topic without a mode have the broker's default, PULL.
    """
    if wanted is None:
        if share is not None or session.dry_run:
            raise UsageFault("--share and --dry-run apply to --set", "add --set pop or --set pull")
        _show(session, group, topic, cluster, broker, assignments=assignments)
        return
    if topic is None:
        raise UsageFault("--set needs --topic", "a mode belongs to a group and a topic")
    if assignments:
        raise UsageFault("--assignments shows and --set changes", "run two commands")
    if share and wanted == "pull":
        raise UsageFault("--share applies to --set pop")
    run_change(
        session,
        library.ModeAdmin,
        lambda modes: modes.plan(
            group, topic, wanted.upper(), share=share or 0, cluster=cluster, broker=broker
        ),
        f"set the mode of group {group} for topic {topic}?",
    )


def _show(
    session: Session,
    group: str,
    topic: str | None,
    cluster: str | None,
    broker: str | None,
    *,
    assignments: bool,
) -> None:
    modes = library.ModeAdmin(session.admin)
    if not assignments:
        session.emit_listing(
            CONSUMER_MODE,
            modes.modes(group, topic=topic, cluster=cluster, broker=broker),
            nothing=f"no mode is set for group {group}: its push consumers receive by PULL",
        )
        return
    if topic is None:
        raise UsageFault("--assignments needs --topic")
    if cluster is not None or broker is not None:
        raise UsageFault("--assignments asks a broker of the topic", "omit --cluster and --broker")
    session.emit_listing(
        ASSIGNMENTS,
        modes.assignments(group, topic),
        nothing=f"no client of group {group} has a queue of topic {topic}",
        hint="mqadmin consumer connections GROUP lists the connected clients",
    )
