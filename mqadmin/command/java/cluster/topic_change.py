"""Java's changes of topics: create, update, permission, delete."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.java import INT32_MAX
from broker.common.topic import TopicConfig, perm_text, topic_config_from_wire
from broker.errors import RocketMQError
from mqadmin.admin.namesrv.library import ORDER_TOPIC_CONFIG, NamesrvAdmin
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topics.put import TopicFields, plan_put
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

UNIT = 1
"""Bit of topicSysFlag: a unit topic. **Source:** RocketMQ ``TopicSysFlag``."""

UNIT_SUB = 2
"""Bit of topicSysFlag: a topic with unit subscriptions."""


def config_text(config: TopicConfig) -> str:
    """Format a topic configuration as Java does.

    **Source:** RocketMQ ``TopicConfig#toString``.
    """
    order = "true" if config.order else "false"
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.topic_name}, readQueueNums={config.read_queue_nums}, "
        f"writeQueueNums={config.write_queue_nums}, perm={perm_text(config.perm)}, "
        f"topicFilterType={config.topic_filter_type}, topicSysFlag={config.topic_sys_flag}, "
        f"order={order}, attributes={{{attributes}}}]"
    )


@java_command("updateTopic", changes=True)
def update_topic(call: JavaCall) -> None:
    """Create a topic, or change the fields named by options where it exists.

    **Source:** RocketMQ ``UpdateTopicSubCommand``, which resets the other fields.
    """
    unit, unit_sub = call.truth("u"), call.truth("s")
    flags = None
    if unit is not None or unit_sub is not None:
        flags = (UNIT if unit else 0) | (UNIT_SUB if unit_sub else 0)
    topic, order = call.text("t"), call.truth("o")
    words = call.get("a")
    fields = TopicFields(
        read_queue_nums=call.number("r", lowest=1, highest=INT32_MAX),
        write_queue_nums=call.number("w", lowest=1, highest=INT32_MAX),
        perm=call.number("p", highest=INT32_MAX),
        order=order,
        topic_sys_flag=flags,
        attributes=[word.strip() for word in words.split(",")] if words else (),
    )
    plan = plan_put(call.admin, topic, fields, cluster=call.get("c"), broker=call.get("b"))
    done = call.apply(TopicAdmin(call.admin), plan)
    for item in done:
        call.line(f"create topic to {item.address} success.")
    if done and order:
        _put_order(call, topic, [(item.target, item.after) for item in done])
    if done:
        _print_config(call, topic, done[0].address, shown=fields.attributes)


def _print_config(
    call: JavaCall, topic: str, address: str, end: str = "", shown: Sequence[str] = ()
) -> None:
    """Print the configuration read back; changed attributes with their sign, as Java does."""
    targets = call.admin.topology.named(address)
    (config,) = TopicAdmin(call.admin).configs(targets, topic)
    if isinstance(config, TopicConfig):
        if shown:
            signed = dict(word.partition("=")[::2] for word in shown)
            config = msgspec.structs.replace(config, attributes=signed)
        call.line(config_text(config) + end)


def _put_order(
    call: JavaCall, topic: str, brokers: Sequence[tuple[str, Mapping[str, Any] | None]]
) -> None:
    """Write the order configuration of the brokers; others keep theirs.

    **Source:** RocketMQ ``DefaultMQAdminExt#createOrUpdateOrderConf``.
    """
    library = NamesrvAdmin(call.admin)
    present = library.kv_get(ORDER_TOPIC_CONFIG, topic).items
    known = dict(
        part.partition(":")[::2] for part in (present[0].value.split(";") if present else ())
    )
    known |= {name: str((state or {}).get("writeQueueNums", "")) for name, state in brokers}
    order = ";".join(f"{name}:{count}" for name, count in sorted(known.items()))
    if call.applied(library.apply(library.plan_kv_put(ORDER_TOPIC_CONFIG, topic, order))):
        whole = "broker" if call.get("b") else "cluster"
        call.line(f"set {whole} orderConf. isOrder=true, orderConf=[{order}]")


@java_command("updateTopicList", changes=True)
def update_topic_list(call: JavaCall) -> None:
    """Create or update the topics of a JSON file, an array of topic configurations.

    **Source:** RocketMQ ``UpdateTopicListSubCommand``, which drops the whole list when one topic
    is unchanged.
    """
    configs = read_topics(call.text("f"))
    target = {"cluster": call.get("c"), "broker": call.get("b")}
    addresses: dict[str, bool] = {}
    for config in configs:
        fields = TopicFields(
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            order=config.order,
            topic_sys_flag=config.topic_sys_flag,
            attributes=[
                name if name.startswith("-") else f"{'' if name[:1] == '+' else '+'}{name}={value}"
                for name, value in config.attributes.items()
            ],
        )
        plan = plan_put(call.admin, config.topic_name, fields, **target)
        if not addresses:
            call.scope(plan)
        done = {item.address for item in call.applied(TopicAdmin(call.admin).apply(plan))}
        for change in plan.changes:
            sound = addresses.get(change.address, True)
            addresses[change.address] = sound and change.address in done
    for address, sound in addresses.items():
        if sound:
            call.line(
                f"submit batch of topic config to {address} success, please check the result later."
            )


def read_topics(path: str) -> list[TopicConfig]:
    """Read a JSON array of topic configurations; UsageFault for any other content."""
    try:
        with open(path, "rb") as file:
            rows = json.load(file)
    except OSError as error:
        raise UsageFault(f"{path}: {error.strerror}", "name a JSON file with -f") from error
    except ValueError as error:
        raise UsageFault(f"{path}: not JSON: {error}") from error
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageFault(f"{path}: not an array of topic configurations")
    try:
        configs = [topic_config_from_wire(row) for row in rows]
    except RocketMQError as error:
        raise UsageFault(f"{path}: {error.message}") from error
    if not all(config.topic_name for config in configs):
        raise UsageFault(f"{path}: a configuration has no topicName")
    return configs


@java_command("updateTopicPerm", changes=True)
def update_topic_perm(call: JavaCall) -> None:
    """Change the permission of a topic; queue counts and order stay as they are.

    **Source:** RocketMQ ``UpdateTopicPermSubCommand``.
    """
    call.one_of("b", "c")
    topic, perm = call.text("t"), call.whole("p", highest=INT32_MAX)
    library = TopicAdmin(call.admin)
    plan = library.plan_perm(topic, perm, cluster=call.get("c"), broker=call.get("b"))
    for item in call.apply(library, plan):
        old = (item.before or {}).get("perm")
        if old == perm:
            call.line("new perm equals to the old one!")
            continue
        call.line(f"update topic perm from {old} to {perm} in {item.address} success.")
        if call.get("b"):
            _print_config(call, topic, item.address, ".")


@java_command("deleteTopic", changes=True)
def delete_topic(call: JavaCall) -> None:
    """Delete a topic from the masters of a cluster and from the name servers.

    **Source:** RocketMQ ``DeleteTopicSubCommand``.
    """
    topic, cluster = call.text("t"), call.text("c")
    library = TopicAdmin(call.admin)
    plan = library.plan_delete(topic, cluster=cluster)
    call.scope(plan)
    outcome = library.apply(plan)
    call.applied(outcome)
    if outcome.ok:
        call.line(f"delete topic [{topic}] from cluster [{cluster}] success.")
        call.line(f"delete topic [{topic}] from NameServer success.")
