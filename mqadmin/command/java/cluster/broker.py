"""Java's commands about brokers: status, configuration, cleaning, flush offset."""

from mqadmin.admin.broker import BrokerAdmin
from mqadmin.admin.brokers.maintenance import BrokerMaintenance
from mqadmin.admin.brokers.settings import BrokerSettings
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

EVERY_CLUSTER = "without a target the Java tool acts on every cluster"


@java_command("brokerStatus")
def broker_status(call: JavaCall) -> None:
    """Print the runtime status of brokers, key by key.

    **Source:** RocketMQ ``BrokerStatusSubCommand``.
    """
    cluster = call.get("c")
    listing = BrokerAdmin(call.admin).status(broker=call.get("b"), cluster=cluster)
    for item in listing.items:
        for key, value in item.runtime.items():
            place = f"{item.address:<24} " if cluster else ""
            call.line(f"{place}{key:<32}: {value}")
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("getBrokerConfig")
def get_broker_config(call: JavaCall) -> None:
    """Print the configuration of one broker, or of every broker of a cluster.

    **Source:** RocketMQ ``GetBrokerConfigCommand``.
    """
    call.one_of("b", "c")
    listing = BrokerAdmin(call.admin).config(broker=call.get("b"), cluster=call.get("c"))
    for item in listing.items:
        role = "" if call.get("b") else "Master: " if item.broker_id == 0 else "My Slave: "
        call.line(f"============{role}{item.address}============")
        for key, value in item.config.items():
            call.line(f"{key:<50}=  {value}")
        call.line()
    call.errors(listing.errors, some_worked=bool(listing.items))


@java_command("updateBrokerConfig", changes=True)
def update_broker_config(call: JavaCall) -> None:
    """Change one setting of one broker, or of the masters of a cluster (-a: also its slaves).

    **Source:** RocketMQ ``UpdateBrokerConfigSubCommand``; there an unknown key is a success.
    """
    call.one_of("b", "c")
    library = BrokerSettings(call.admin)
    plan = library.plan_set(
        {call.text("k"): call.text("v")},
        broker=call.get("b"),
        cluster=call.get("c"),
        replicas=call.flag("a"),
    )
    for item in call.apply(library, plan):
        call.line(f"update broker config success, {item.address}")


def _clean(call: JavaCall, kind: str) -> None:
    call.one_of("b", "c", why=EVERY_CLUSTER)
    library = BrokerMaintenance(call.admin)
    plan = library.plan_clean(kind, broker=call.get("b"), cluster=call.get("c"))
    call.scope(plan)
    outcome = library.apply(plan)
    call.applied(outcome)
    if outcome.ok:
        call.line("success")


@java_command("cleanExpiredCQ", changes=True)
def clean_expired_cq(call: JavaCall) -> None:
    """Delete ConsumeQueue files that end before the start of the CommitLog.

    **Source:** RocketMQ ``CleanExpiredCQSubCommand``.
    """
    _clean(call, "expired-queues")


@java_command("cleanUnusedTopic", changes=True)
def clean_unused_topic(call: JavaCall) -> None:
    """Delete the queues of topics that do not exist.

    **Source:** RocketMQ ``CleanUnusedTopicCommand``.
    """
    _clean(call, "unused-topics")


@java_command("deleteExpiredCommitLog", changes=True)
def delete_expired_commit_log(call: JavaCall) -> None:
    """Delete expired CommitLog files now, at any hour.

    **Source:** RocketMQ ``DeleteExpiredCommitLogSubCommand``.
    """
    _clean(call, "expired-log")


@java_command("resetMasterFlushOffset", changes=True)
def reset_master_flush_offset(call: JavaCall) -> None:
    """Set the flush offset of the master that a slave keeps.

    **Source:** RocketMQ ``ResetMasterFlushOffsetSubCommand``.
    """
    call.one_of("b")
    call.one_of("o")
    library = BrokerMaintenance(call.admin)
    offset = call.whole("o")
    plan = library.plan_flush_offset(call.text("b"), offset)
    if call.apply(library, plan):
        call.line(f"reset master flush offset to {offset} success")
