"""The running information of a client as the text that Java writes.

**Source:** RocketMQ ``ConsumerRunningInfo#formatString``.
"""

from collections.abc import Callable, Sequence

from mqadmin.admin.clients.running import RunningQueue, RunningRecord

QUEUE_ROW = "%-64s  %-32s  %-4s  %-20s"
RATE_ROW = "%-64s  %14s %14s %14s %14s %18s %25s"


def running_text(record: RunningRecord) -> str:
    """Return the sections of a client: properties, subscriptions, offsets, queues, rates."""
    pulled = [queue for queue in record.queues if queue.commit_offset is not None]
    popped = [queue for queue in record.queues if queue.commit_offset is None]
    lines = ["#Consumer Properties#"]
    lines += [f"{name:<40}: {value}" for name, value in record.properties.items()]
    lines += ["", "", "#Consumer Subscription#"]
    lines += [
        f"{number:03d} Topic: {one.topic:<40} ClassFilter: {'false':<8} SubExpression: "
        f"{one.sub_string}"
        for number, one in enumerate(record.subscriptions, 1)
    ]
    lines += ["", "", "#Consumer Offset#"]
    lines += _queue_rows("#Consumer Offset", pulled, lambda queue: str(queue.commit_offset))
    lines += ["", "", "#Consumer MQ Detail#"]
    lines += _queue_rows("#ProcessQueueInfo", pulled, _pulled_text)
    lines += ["", "", "#Consumer Pop Detail#"]
    lines += _queue_rows("#ProcessQueueInfo", popped, _popped_text)
    lines += ["", "", "#Consumer RT&TPS#"]
    lines.append(
        RATE_ROW
        % (
            *("#Topic", "#Pull RT", "#Pull TPS", "#Consume RT"),
            *("#ConsumeOK TPS", "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour"),
        )
    )
    lines += [
        RATE_ROW
        % (
            one.topic,
            f"{one.pull_rt:.2f}",
            f"{one.pull_tps:.2f}",
            f"{one.consume_rt:.2f}",
            f"{one.consume_ok_tps:.2f}",
            f"{one.consume_failed_tps:.2f}",
            one.consume_failed_msgs,
        )
        for one in record.topics
    ]
    if record.user_consumer_info:
        lines += ["", "", "#User Consume Info#"]
        lines += [f"{name:<40}: {value}" for name, value in record.user_consumer_info.items()]
    if record.jstack is not None:
        lines += ["", "", "#Consumer jstack#", record.jstack]
    return "\n".join(lines) + "\n"


def _queue_rows(
    title: str, queues: Sequence[RunningQueue], text: Callable[[RunningQueue], str]
) -> list[str]:
    rows = [QUEUE_ROW % ("#Topic", "#Broker Name", "#QID", title)]
    rows += [
        QUEUE_ROW % (queue.topic, queue.broker_name, queue.queue_id, text(queue))
        for queue in queues
    ]
    return rows


def _pulled_text(queue: RunningQueue) -> str:
    return (
        f"commitOffset={queue.commit_offset}, cachedMsgMinOffset={queue.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={queue.cached_msg_max_offset}, "
        f"cachedMsgCount={queue.cached_msg_count}, "
        f"cachedMsgSizeInMiB={queue.cached_msg_size_in_mib}, locked={_truth(queue.locked)}, "
        f"droped={_truth(queue.dropped)}, lastPullTimestamp={queue.last_pull_timestamp or 0}, "
        f"lastConsumeTimestamp={queue.last_consume_timestamp or 0}"
    )


def _popped_text(queue: RunningQueue) -> str:
    return (
        f"waitAckCount={queue.wait_ack_count}, droped={_truth(queue.dropped)}, "
        f"lastPopTimestamp={queue.last_pull_timestamp or 0}"
    )


def _truth(value: bool | None) -> str:
    return "true" if value else "false"
