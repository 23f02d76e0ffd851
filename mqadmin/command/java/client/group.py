"""Java's commands about groups: getConsumerConfig, updateSubGroup, deleteSubGroup and others."""

import json
from typing import Any

from broker.common.group import SubscriptionGroupConfig
from broker.common.java import INT32_MAX, INT64_MAX
from broker.errors import ConfigError
from mqadmin.admin.group import GroupAdmin, GroupRecord
from mqadmin.admin.pop.modes import ModeAdmin
from mqadmin.command.execution.failure import NoResults, UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command
from mqadmin.settings import read_file

BANNER = "=" * 29
CONFIG_ROW = "%-40s=  %s"

#: Settings of a new group where the command differs from the broker's defaults.
#: **Source:** RocketMQ ``UpdateSubGroupSubCommand``.
NEW_GROUP = {"consumeFromMinEnable": False, "consumeBroadcastEnable": False}

#: Option → setting, for true and false and for numbers.
TRUTHS = {
    "s": "consumeEnable",
    "m": "consumeFromMinEnable",
    "d": "consumeBroadcastEnable",
    "o": "consumeMessageOrderly",
    "a": "notifyConsumerIdsChangedEnable",
}
NUMBERS = {
    "q": "retryQueueNums",
    "r": "retryMaxTimes",
    "i": "brokerId",
    "w": "whichBrokerWhenConsumeSlowly",
}


@java_command("getConsumerConfig")
def get_consumer_config(call: JavaCall) -> None:
    """Print the configuration of a group on each broker.

    **Source:** RocketMQ ``GetConsumerConfigSubCommand``.
    """
    group = call.text("g")
    listing = GroupAdmin(call.admin).show(group)
    if not listing.items and not listing.errors:
        raise NoResults(f"no broker has group {group}", "mqadmin group list lists the groups")
    for item in listing.items:
        call.line(f"{BANNER}{item.cluster_name}:{item.broker_name}{BANNER}")
        for name, value in config_fields(item):
            call.line(CONFIG_ROW % (name, value))
    call.errors(listing.errors, some_worked=bool(listing.items))


def config_fields(config: GroupRecord | SubscriptionGroupConfig) -> list[tuple[str, str]]:
    """Return the settings of a group in Java's order and form, without subscriptions."""
    name = config.group if isinstance(config, GroupRecord) else config.group_name
    return [
        ("groupName", name),
        ("consumeEnable", _text(config.consume_enable)),
        ("consumeFromMinEnable", _text(config.consume_from_min_enable)),
        ("consumeBroadcastEnable", _text(config.consume_broadcast_enable)),
        ("consumeMessageOrderly", _text(config.consume_message_orderly)),
        ("retryQueueNums", _text(config.retry_queue_nums)),
        ("retryMaxTimes", _text(config.retry_max_times)),
        ("groupRetryPolicy", _policy(config.group_retry_policy)),
        ("brokerId", _text(config.broker_id)),
        ("whichBrokerWhenConsumeSlowly", _text(config.which_broker_when_consume_slowly)),
        ("notifyConsumerIdsChangedEnable", _text(config.notify_consumer_ids_changed_enable)),
        ("groupSysFlag", _text(config.group_sys_flag)),
        ("consumeTimeoutMinute", _text(config.consume_timeout_minute)),
        ("subscriptionDataSet", ""),
        ("attributes", "{" + ", ".join(f"{k}={v}" for k, v in config.attributes.items()) + "}"),
    ]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _policy(policy: Any) -> str:
    """Format a retry policy. **Source:** RocketMQ ``GroupRetryPolicy#toString``."""
    known = policy or {}
    return (
        f"GroupRetryPolicy{{type={known.get('type', 'CUSTOMIZED')}, "
        f"exponentialRetryPolicy={_policy_part(known.get('exponentialRetryPolicy'))}, "
        f"customizedRetryPolicy={_policy_part(known.get('customizedRetryPolicy'))}}}"
    )


def _policy_part(part: Any) -> str:
    return "null" if part is None else json.dumps(part)


def config_text(config: SubscriptionGroupConfig) -> str:
    """Format a configuration. **Source:** RocketMQ ``SubscriptionGroupConfig#toString``."""
    fields = dict(config_fields(config)) | {"subscriptionDataSet": "null"}
    inner = ", ".join(f"{name}={value}" for name, value in fields.items())
    return f"SubscriptionGroupConfig{{{inner}}}"


@java_command("updateSubGroup", changes=True)
def update_sub_group(call: JavaCall) -> None:
    """Create a group, or change the settings named by options where it exists.

    **Source:** RocketMQ ``UpdateSubGroupSubCommand``, which resets the other settings.
    """
    call.one_of("b", "c")
    settings: dict[str, Any] = {
        name: call.truth(option) for option, name in TRUTHS.items() if call.get(option) is not None
    }
    for option, name in NUMBERS.items():
        if call.get(option) is not None:
            settings[name] = call.number(
                option,
                lowest=-1 if option == "r" else 0,
                highest=INT32_MAX if option in ("q", "r") else INT64_MAX,
            )
    if call.get("p") is not None:
        settings["groupRetryPolicy"] = _json(call, "p", dict)
    if call.get("attributes") is not None:
        raise call.fault("attributes", "brokers know no attribute of a group")
    _put(call, call.text("g"), settings, show=True)


def _put(call: JavaCall, group: str, settings: dict[str, Any], *, show: bool) -> None:
    groups = GroupAdmin(call.admin)
    plan = groups.plan_put(
        group, settings=settings, new=NEW_GROUP, cluster=call.get("c"), broker=call.get("b")
    )
    done = call.apply(groups, plan)
    if not show:
        for item in done:
            call.line(
                f"submit batch of group config to {item.address} success, "
                "please check the result later."
            )
        return
    for item in done:
        call.line(f"create subscription group to {item.address} success.")
    if done:
        (config,) = groups.configs(call.admin.topology.named(done[0].address), group)
        if isinstance(config, SubscriptionGroupConfig):
            call.line(config_text(config))


def _json(call: JavaCall, option: str, kind: type) -> Any:
    try:
        value = json.loads(call.text(option))
    except ValueError as error:
        raise call.fault(option, f"not JSON: {error}") from None
    if not isinstance(value, kind):
        raise call.fault(option, f"not a JSON {kind.__name__}")
    return value


@java_command("updateSubGroupList", changes=True)
def update_sub_group_list(call: JavaCall) -> None:
    """Create or change the groups of a file, a JSON array of configurations, one after another.

    A broker drops the whole batch of Java's request if one group is unchanged, so each group is
    sent and read back.

    **Source:** RocketMQ ``UpdateSubGroupListSubCommand``.
    """
    call.one_of("b", "c")
    path = call.text("f")
    try:
        rows = json.loads(read_file(path))
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {error}") from None
    if not isinstance(rows, list) or not rows:
        raise ConfigError(f"{path}: not a JSON array of groups, or an empty one")
    for place, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not isinstance(row.get("groupName"), str):
            raise ConfigError(f"{path}, item {place}: no object with a groupName")
    for row in rows:
        settings = {name: value for name, value in row.items() if name not in _NOT_SET}
        _put(call, row["groupName"], settings, show=False)


_NOT_SET = {"groupName", "attributes", "subscriptionDataSet"}


@java_command("deleteSubGroup", changes=True)
def delete_sub_group(call: JavaCall) -> None:
    """Delete a group; its retry and dead-letter topics are kept.

    **Source:** RocketMQ ``DeleteSubscriptionGroupCommand``, which with -c also deletes both topics.
    """
    call.one_of("b", "c")
    group, cluster = call.text("g"), call.get("c")
    groups = GroupAdmin(call.admin)
    plan = groups.plan_delete(
        group,
        remove_offset=bool(call.truth("r", False)),
        cluster=cluster,
        broker=call.get("b"),
    )
    for item in call.apply(groups, plan):
        where = f" in cluster [{cluster}]" if cluster else ""
        call.line(
            f"delete subscription group [{group}] from broker [{item.address}]{where} success."
        )
    if cluster:
        call.session.note(
            f"the topics %RETRY%{group} and %DLQ%{group} are kept: mqadmin topic delete"
        )


@java_command("setConsumeMode", changes=True)
def set_consume_mode(call: JavaCall) -> None:
    """Set whether the push consumers of a group receive a topic by PULL or by POP.

    **Source:** RocketMQ ``SetConsumeModeSubCommand``.
    """
    call.one_of("b", "c")
    mode = call.choice("m", ("PULL", "POP"))
    group, topic, share = call.text("g"), call.text("t"), call.whole("q", highest=INT32_MAX)
    if share and mode == "PULL":
        raise UsageFault("setConsumeMode: -q applies to the mode POP")
    modes = ModeAdmin(call.admin)
    plan = modes.plan(group, topic, mode, share=share, cluster=call.get("c"), broker=call.get("b"))
    done = call.apply(modes, plan)
    for item in done:
        call.line(f"set consume mode to {item.address} success.")
    if done:
        call.line(f"topic[{topic}] group[{group}] consume mode[{mode}] popShareQueueNum[{share}]")
