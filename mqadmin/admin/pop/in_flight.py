"""Messages of POP groups that are in flight: popped and not acknowledged.

They are counted from the check points in the timer topic and the revive topic of each broker; a
broker has no request for them. Check points in the pop buffer (enablePopBufferMerge) are written
after some seconds only, and orderly consumption writes none.
"""

from collections import Counter
from typing import Any, Final

import msgspec

from broker.common.topic import REVIVE_TOPIC_PREFIX, TIMER_TOPIC, revive_topic
from broker.errors import RemoteProtocolError, RocketMQError
from broker.message import message as props
from broker.message.check_point import REVIVE_GROUP
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.failure import describe
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target
from mqadmin.system_topics.check_points import REVIVE_STAGE, TIMER_STAGE, CheckPoints

DEFAULT_SCAN: Final = 20_000
REVIVE_QUEUES: Final = 8

Place = tuple[str, str, int]
"""broker name, topic, queue id."""


class InFlight(msgspec.Struct, kw_only=True):
    """Unacknowledged messages of a group by queue; sentences about incomplete counts."""

    counts: Counter[Place] = msgspec.field(default_factory=Counter)
    errors: list[TargetError] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    brokers: set[str] = msgspec.field(default_factory=set)


def in_flight(admin: AdminSession, group: str, *, scan: int = DEFAULT_SCAN) -> InFlight:
    """Count the messages in flight of a group on every broker; ``scan`` bounds the records read."""
    found = InFlight()
    for target in admin.topology.readers():
        try:
            points = _check_points(admin, target, scan, found.notes)
        except RocketMQError as error:
            found.errors.append(describe(error, address=target.address, target=target.label))
            continue
        name = target.broker_name or ""
        found.brokers.add(name)
        for (topic, queue_id), count in points.in_flight(group).items():
            found.counts[name, topic, queue_id] += count
    return found


def _check_points(admin: AdminSession, target: Target, scan: int, notes: list[str]) -> CheckPoints:
    """Read the check points of one broker that are not revived yet."""
    points = CheckPoints(target.broker_name)
    settings = admin.call(target.address, RequestCode.GET_BROKER_CONFIG).properties
    if settings.get("enablePopBufferMerge") == "true":
        notes.append(f"{target.label}: check points in the pop buffer are not counted")
    state = admin.call(target.address, RequestCode.GET_TIMER_CHECK_POINT).value
    reader = BrokerReader(admin, target)
    timers = reader.queue(TIMER_TOPIC, 0)
    least, end = reader.bounds(timers)
    begin = max(least, end - scan)
    for message in reader.messages(timers, begin, end):
        topic = message.get_property(props.PROPERTY_REAL_TOPIC) or ""
        due = message.get_property(props.PROPERTY_TIMER_OUT_MS) or ""
        waits = due.isdecimal() and int(due) >= state.last_read_time_ms
        if waits and topic.startswith(REVIVE_TOPIC_PREFIX):
            _add(points, message, TIMER_STAGE)
    if begin > least:
        notes.append(f"{target.label}: {begin - least} older timer records were not read")
    topic = revive_topic(target.cluster_name or "")
    number = settings.get("reviveQueueNum", "")
    for queue_id in range(int(number) if number.isdecimal() else REVIVE_QUEUES):
        queue = reader.queue(topic, queue_id)
        for message in reader.messages(queue, _revived(admin, target, topic, queue_id)):
            _add(points, message, REVIVE_STAGE)
    return points


def _add(points: CheckPoints, message: Any, stage: str) -> None:
    try:
        points.add(message, stage)
    except RemoteProtocolError:
        return  # brokers skip it, too; mqadmin store inspect --kind pop reports it


def _revived(admin: AdminSession, target: Target, topic: str, queue_id: int) -> int:
    """Return the first queue offset of a revive queue that has not been processed.

    **Source:** RocketMQ PopReviveService#mergeAndRevive, which commits the offset of the last
    check point itself.
    """
    reply = admin.call(
        target.address,
        RequestCode.QUERY_CONSUMER_OFFSET,
        accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND, ResponseCode.TOPIC_NOT_EXIST),
        consumer_group=REVIVE_GROUP,
        topic=topic,
        queue_id=queue_id,
        set_zero_if_not_found=False,
    )
    return int(reply.command.ext_fields.get("offset") or -1) + 1
