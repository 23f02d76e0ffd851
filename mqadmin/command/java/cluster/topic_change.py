"""Java's changes of topics: updateTopic."""

from broker.common.topic import TopicConfig, perm_text
from mqadmin.admin.topic import TopicAdmin
from mqadmin.admin.topics.put import TopicFields, plan_put
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
        read_queue_nums=call.number("r", lowest=1),
        write_queue_nums=call.number("w", lowest=1),
        perm=call.number("p"),
        order=order,
        topic_sys_flag=flags,
        attributes=[word.strip() for word in words.split(",")] if words else (),
    )
    plan = plan_put(call.admin, topic, fields, cluster=call.get("c"), broker=call.get("b"))
    call.scope(plan)
    done = call.applied(TopicAdmin(call.admin).apply(plan))
    for item in done:
        call.line(f"create topic to {item.address} success.")
    if done:
        targets = call.admin.topology.named(done[0].address)
        (config,) = TopicAdmin(call.admin).configs(targets, topic)
        if isinstance(config, TopicConfig):
            call.line(config_text(config))
