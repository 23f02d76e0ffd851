"""Java's changes of offsets: cloneGroupOffset, resetOffsetByTime, skipAccumulatedMessage."""

from collections.abc import Sequence

from broker.common.java import INT32_MAX
from mqadmin.admin.offset.clone import OffsetCloner
from mqadmin.admin.offset.library import OffsetAdmin
from mqadmin.admin.offset.reset import ResetItem, ResetPlan
from mqadmin.command.java.call import JavaCall
from mqadmin.command.java.declare import java_command

ROW = "%-40s  %-40s  %-40s"


@java_command("cloneGroupOffset", changes=True)
def clone_group_offset(call: JavaCall) -> None:
    """Copy the committed offsets of a group in one topic to another group.

    **Source:** RocketMQ ``CloneGroupOffsetCommand``, which copies every topic of the source.
    """
    source, target, topic = call.text("s"), call.text("d"), call.text("t")
    cloner = OffsetCloner(call.admin)
    plan = cloner.plan(source, target, topic)
    call.session.announce({change.address for change in plan.changes})
    outcome = cloner.apply(plan)
    call.applied(outcome)
    if outcome.ok:
        call.line(
            f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
        )


@java_command("resetOffsetByTime", changes=True)
def reset_offset_by_time(call: JavaCall) -> None:
    """Reset a group's offsets in a topic, or with -b and -q in one queue.

    -s is ``now``, epoch ms, ``yyyy-MM-dd#HH:mm:ss:SSS``, or negative for the max offset.

    **Source:** RocketMQ ``ResetOffsetByTimeCommand``.
    """
    group, topic, when = call.text("g"), call.text("t"), call.text("s")
    _check_options(call)
    queue_id = call.number("q", highest=INT32_MAX)
    broker = None
    if call.get("b") is not None:
        broker = call.admin.topology.named(call.text("b"))[0].label
    offset = call.number("o")
    to = _target(when) if offset is None else f"offset:{offset}"
    plan = OffsetAdmin(call.admin).plan_reset(group, topic, to, queue_id=queue_id, broker=broker)
    resolved = -1 if to == "latest" else plan.to_timestamp if offset is None else when
    head = f"start reset consumer offset by specified, group[{group}], topic[{topic}], "
    if queue_id is None:
        head += "force[true], "
    else:
        head += f"queueId[{queue_id}], broker[{call.get('b')}], "
    call.line(f"{head}timestamp(string)[{when}], timestamp(long)[{resolved}]")
    done = _applied(call, plan)
    if queue_id is None:
        _print(call, done)
    else:
        for item in done:
            call.line(f"reset consumer offset to {item.new_offset}")


@java_command("skipAccumulatedMessage", changes=True)
def skip_accumulated_message(call: JavaCall) -> None:
    """Reset a group's offsets in a topic to the end of each queue.

    **Source:** RocketMQ ``SkipAccumulationSubCommand``.
    """
    _check_options(call)
    plan = OffsetAdmin(call.admin).plan_reset(call.text("g"), call.text("t"), "latest")
    _print(call, _applied(call, plan))


def _check_options(call: JavaCall) -> None:
    """Refuse options that would have no effect, or a misleading one."""
    if call.truth("f", True) is False:
        raise call.fault("f", "false has no effect: brokers since 5.2 ignore it")
    if call.flag("cplus"):
        raise call.fault("cplus", "it changes the body for clients in C++, which is not supported")
    if call.get("c") is not None:
        call.admin.topology.all(cluster=call.get("c"))  # an error for an unknown cluster
    given = [option for option in ("b", "q") if call.get(option) is not None]
    if len(given) == 1:
        raise call.fault(given[0], "-b and -q select one queue together")
    if call.get("o") is not None and not given:
        raise call.fault("o", "an offset needs a queue: -b and -q")


def _target(when: str) -> str:
    """Return the target of a reset for a time of the Java tool."""
    if when.startswith("-") and when[1:].isdecimal():
        return "latest"
    return f"time:@{when}" if when.isdecimal() else f"time:{when}"


def _applied(call: JavaCall, plan: ResetPlan) -> Sequence[ResetItem]:
    """Apply a plan, report its scope, warnings, errors and undo file; return the items done."""
    call.session.announce({item.address for item in plan.items})
    applied = OffsetAdmin(call.admin).apply_reset(plan)
    for warning in applied.warnings:
        call.session.note(f"warning: {warning}")
    if applied.undo_path:
        call.session.note(
            f"undo: mqadmin offset reset {plan.group} --topic {plan.topic} "
            f"--to file:{applied.undo_path}"
        )
    done = [item for item in applied.items if item.status in ("done", "unchanged", "pending")]
    call.errors(applied.errors, some_worked=bool(done))
    return done


def _print(call: JavaCall, items: Sequence[ResetItem]) -> None:
    call.line(ROW % ("#brokerName", "#queueId", "#offset"))
    for item in items:
        call.line(ROW % (item.broker_name, item.queue_id, item.new_offset))
