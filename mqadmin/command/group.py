"""``mqadmin group``: create, list, show, update, delete."""

from typing import Annotated, Any

from mqadmin.command.execution.change import change_view, run_change
from mqadmin.command.execution.online import groups
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.common_options import (
    Group,
    IfNotExists,
    OnlyCluster,
    TargetBroker,
    TargetCluster,
    UserOnly,
)
from mqadmin.command.framework.declare import Argument, Noun, Option, Options
from mqadmin.command.framework.values import int32, positive_int32
from mqadmin.output.view import View

NOUN = Noun(
    "group",
    """Create, inspect, change and delete consumer groups.

    The consumers of a group share the messages of its topics: in clustering mode each message is
    delivered to one of them, in broadcasting mode to all. Each broker stores the configuration of
    the group: whether it may consume, how often a failed message is delivered again before it
    becomes a dead letter, how many queues its retry topic has. 'mqadmin consumer' shows connected
    clients and lag, 'mqadmin offset' committed offsets.
    """,
)

GROUP_COLUMNS = (
    "group",
    "clusterName",
    "brokerName",
    "consumeEnable",
    "consumeBroadcastEnable",
    "consumeMessageOrderly",
    "retryQueueNums",
    "retryMaxTimes",
)
GROUP_LIST = View("group.list", GROUP_COLUMNS)
GROUP_SHOW = View(
    "group.show",
    (*GROUP_COLUMNS, "consumeTimeoutMinute", "attributes"),
)

GROUP_HELP = "Name of the consumer group."


class GroupSettings(Options):
    """Settings of a group on the command line; None: not given."""

    consume: Annotated[
        bool | None, Option("--consume/--no-consume", help="Whether the group may consume.")
    ] = None
    from_min: Annotated[
        bool | None,
        Option(
            "--from-min/--no-from-min",
            help="Whether consumption may start at the oldest message.",
        ),
    ] = None
    broadcast: Annotated[
        bool | None, Option("--broadcast/--no-broadcast", help="Whether broadcasting is allowed.")
    ] = None
    orderly: Annotated[
        bool | None, Option("--orderly/--no-orderly", help="Whether queues are consumed in order.")
    ] = None
    retry_queues: Annotated[
        int | None, Option("--retry-queues", help="Queues of the retry topic.", parse=int32)
    ] = None
    retry_max: Annotated[
        int | None,
        Option(
            "--retry-max", help="Redeliveries before a message becomes a dead letter.", parse=int32
        ),
    ] = None
    consume_timeout: Annotated[
        int | None,
        Option(
            "--consume-timeout",
            metavar="MINUTES",
            help="Limit of one delivery.",
            parse=positive_int32,
        ),
    ] = None
    notify_changes: Annotated[
        bool | None,
        Option(
            "--notify-changes/--no-notify-changes",
            help="Notify members of membership changes.",
        ),
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return the given settings under RocketMQ's names."""
        values = {
            "consumeEnable": self.consume,
            "consumeFromMinEnable": self.from_min,
            "consumeBroadcastEnable": self.broadcast,
            "consumeMessageOrderly": self.orderly,
            "retryQueueNums": self.retry_queues,
            "retryMaxTimes": self.retry_max,
            "consumeTimeoutMinute": self.consume_timeout,
            "notifyConsumerIdsChangedEnable": self.notify_changes,
        }
        return {name: value for name, value in values.items() if value is not None}


@NOUN.verb(
    "create",
    view=change_view("group.create"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin group create billing --retry-max 5",
        "mqadmin group create audit --broadcast --broker broker-a --yes",
    ],
)
def create(
    session: Session,
    group: Annotated[str, Argument("GROUP", help=GROUP_HELP)],
    given: GroupSettings,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a consumer group; omitted settings have the broker's defaults."""
    run_change(
        session,
        groups,
        lambda groups: groups.plan_create(
            group,
            settings=given.changes(),
            cluster=cluster,
            broker=broker,
            if_not_exists=if_not_exists,
        ),
        f"create group {group}?",
    )


@NOUN.verb(
    "update",
    view=change_view("group.update"),
    changes=True,
    plans=True,
    examples=[
        "mqadmin group update billing --retry-max 3",
        "mqadmin group update billing --no-consume --dry-run",
    ],
)
def update(
    session: Session,
    group: Group,
    given: GroupSettings,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Change settings of a consumer group; omitted settings keep their values."""
    run_change(
        session,
        groups,
        lambda groups: groups.plan_update(
            group, settings=given.changes(), cluster=cluster, broker=broker
        ),
        f"update group {group}?",
    )


@NOUN.verb("list", view=GROUP_LIST, examples=["mqadmin group list --user"])
def list_groups(
    session: Session,
    cluster: OnlyCluster = None,
    user: UserOnly = False,
) -> None:
    """List consumer groups, one line per group and broker."""
    listing = groups(session.admin).list(cluster=cluster, include_system=not user)
    session.emit_listing(GROUP_LIST, listing)


@NOUN.verb("show", view=GROUP_SHOW, examples=["mqadmin group show billing -o json"])
def show(session: Session, group: Group) -> None:
    """Show the configuration of a consumer group on each of its brokers."""
    listing = groups(session.admin).show(group)
    session.emit_listing(
        GROUP_SHOW,
        listing,
        nothing=f"no broker has group {group}",
        hint="mqadmin group list lists the groups",
    )


@NOUN.verb(
    "delete",
    view=change_view("group.delete"),
    changes=True,
    plans=True,
    examples=["mqadmin group delete billing --dry-run", "mqadmin group delete billing --yes"],
)
def delete(
    session: Session,
    group: Group,
    remove_offset: Annotated[
        bool, Option("--remove-offset", help="Also delete the committed offsets of the group.")
    ] = False,
    cluster: TargetCluster = None,
    broker: TargetBroker = None,
) -> None:
    """Delete a consumer group's configuration; its retry and DLQ topics stay."""
    run_change(
        session,
        groups,
        lambda groups: groups.plan_delete(
            group, remove_offset=remove_offset, cluster=cluster, broker=broker
        ),
        f"delete group {group}?",
    )
