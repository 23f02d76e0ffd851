"""Consumer progress per queue: the data for lag, offsets and resets.

A broker's consume statistics contain 0 both for "nothing committed" and for "committed 0", and do
not contain the minimum offset. So the committed offset of a queue at 0 is queried separately, and
the range of each queue is read per topic. Brokers before 5.0 answer even that query with 0 for a
new queue (minimum offset 0, first message still in memory); there the whole offset table is read.

**Source:** RocketMQ ``AdminBrokerProcessor#getConsumeStats``,
``ConsumerManageProcessor#queryConsumerOffset``.
"""

from collections.abc import Mapping, Sequence

import msgspec

from broker.common.message_queue import MessageQueue
from broker.common.topic import REVIVE_TOPIC_PREFIX
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply, build_request
from broker.remoting.rpc.route_cache import Route
from mqadmin.admin.connections import call_bounded
from mqadmin.admin.failure import describe
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

#: The first version (MQVersion ordinal) of the 5.x line: from here on the query for one queue
#: distinguishes "nothing committed" from 0.
VERSION_5 = 413

OK = "ok"
NO_OFFSET = "noOffset"
AHEAD = "ahead"
BELOW_MIN = "belowMin"
UNKNOWN = "unknown"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One broker that a group is queried on."""

    broker_name: str
    address: str


class QueueProgress(msgspec.Struct, kw_only=True):
    """One queue of a group. Offsets are queue offsets; None: not reported by the broker.

    ``broker_offset`` is the end of the queue, ``committed`` the committed offset (None with state
    noOffset: nothing is committed), ``pulled`` the offset its clients have pulled up to,
    ``behind_ms`` the age of the oldest message not yet consumed, ``last_timestamp`` the store time
    (ms) of the last consumed message.
    """

    queue: MessageQueue
    address: str
    state: str = UNKNOWN
    min_offset: int | None = None
    broker_offset: int | None = None
    committed: int | None = None
    pulled: int | None = None
    last_timestamp: int | None = None
    behind_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Messages from the committed offset to the end; negative when it is past the end.

        The offset of a revive queue is that of the last processed check point.

        **Source:** RocketMQ PopReviveService#mergeAndRevive.
        """
        if self.broker_offset is None or self.committed is None:
            return None
        done = self.queue.topic.startswith(REVIVE_TOPIC_PREFIX)
        return self.broker_offset - self.committed - done


class GroupProgress(msgspec.Struct, kw_only=True):
    """All queues of a group, the targets that failed, and the group's messages per second."""

    queues: Sequence[QueueProgress]
    errors: Sequence[TargetError]
    consume_tps: float = 0.0


def places_of(admin: AdminSession, topic: str | None) -> list[Place]:
    """Return the brokers to query: those of the topic's route, or one per broker name."""
    if topic is None:
        return [
            Place(broker_name=target.broker_name or "", address=target.address)
            for target in admin.topology.readers()
        ]
    route = route_of(admin, topic)
    return [
        Place(broker_name=name, address=address)
        for name in route.broker_names()
        if (address := route.reader(name)) is not None
    ]


def route_of(admin: AdminSession, topic: str) -> Route:
    """Return the topic's route; ClientError with the next step when there is none."""
    return admin.routes.get(topic)


def group_progress(
    admin: AdminSession,
    group: str,
    topic: str | None = None,
    *,
    ages: bool = True,
    ranges: bool = True,
) -> GroupProgress:
    """Query the progress of ``group`` on every broker, in ``topic`` or in all its topics.

    ``ages`` also queries the age of the oldest unconsumed messages, ``ranges`` the min offsets;
    without them the state ``belowMin`` is not found. With ``topic``, the queues of a broker that
    failed are included with state ``unknown``.
    """
    places = places_of(admin, topic)
    answers = admin.call_all(
        [
            (
                place.address,
                build_request(
                    RequestCode.GET_CONSUME_STATS, {"consumer_group": group, "topic": topic}
                ),
            )
            for place in places
        ]
    )
    queues: list[QueueProgress] = []
    errors: list[TargetError] = []
    old: dict[str, bool] = {}
    tps = 0.0
    for place, answer in zip(places, answers, strict=True):
        if isinstance(answer, RocketMQError):
            errors.append(describe(answer, address=place.address, target=place.broker_name))
            if topic is not None:
                queues += _unknown_queues(admin, topic, place)
            continue
        old[place.address] = answer.command.version < VERSION_5
        stats = answer.value
        tps += stats.consume_tps
        queues += [
            QueueProgress(
                queue=queue,
                address=place.address,
                broker_offset=found.broker_offset,
                committed=found.consumer_offset if found.consumer_offset >= 0 else None,
                pulled=found.pull_offset if found.pull_offset >= found.consumer_offset else None,
                last_timestamp=found.last_timestamp if found.last_timestamp > 0 else None,
            )
            for queue, found in stats.offset_table.items()
        ]
    queues.sort(key=lambda progress: progress.queue)
    asked = [progress for progress in queues if progress.broker_offset is not None]
    _clear_never_committed(admin, group, asked, old)
    if ranges:
        errors += _add_ranges(admin, asked)
    for progress in asked:
        progress.state = state_of(progress)
    if ages:
        add_ages(admin, {group: asked})
    return GroupProgress(queues=queues, errors=errors, consume_tps=tps)


def committed_offsets(
    admin: AdminSession, group: str, queues: Sequence[tuple[str, MessageQueue]]
) -> list[int | RocketMQError | None]:
    """Return the committed offset of each (address, queue): None where nothing is committed."""
    answers = call_bounded(
        admin,
        [
            (
                address,
                build_request(
                    RequestCode.QUERY_CONSUMER_OFFSET,
                    {
                        "consumer_group": group,
                        "topic": queue.topic,
                        "queue_id": queue.queue_id,
                        "set_zero_if_not_found": False,
                        "lo": False,  # of a static topic, too, this is a queue of the broker
                    },
                ),
            )
            for address, queue in queues
        ],
        accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
    )
    tables: dict[str, Mapping[str, Mapping[int, int]] | RocketMQError] = {}
    offsets: list[int | RocketMQError | None] = []
    for (address, queue), answer in zip(queues, answers, strict=True):
        if isinstance(answer, RocketMQError):
            offsets.append(answer)
        elif answer.code == ResponseCode.QUERY_NOT_FOUND:
            offsets.append(None)
        elif answer.header.offset == 0 and answer.command.version < VERSION_5:
            if address not in tables:
                tables[address] = _offset_table(admin, address)
            offsets.append(_from_table(tables[address], group, queue))
        else:
            offsets.append(answer.header.offset)
    return offsets


def _clear_never_committed(
    admin: AdminSession, group: str, queues: Sequence[QueueProgress], old: Mapping[str, bool]
) -> None:
    """Set ``committed`` to None where the 0 of the statistics means "nothing committed"."""
    zeros = [progress for progress in queues if progress.committed == 0]
    found = committed_offsets(admin, group, [(item.address, item.queue) for item in zeros])
    for progress, offset in zip(zeros, found, strict=True):
        if offset is None:
            progress.committed = None


def _offset_table(
    admin: AdminSession, address: str
) -> Mapping[str, Mapping[int, int]] | RocketMQError:
    try:
        value = admin.call(address, RequestCode.GET_ALL_CONSUMER_OFFSET).value
    except RocketMQError as error:
        return error
    table: Mapping[str, Mapping[int, int]] = value.offset_table
    return table


def _from_table(
    table: Mapping[str, Mapping[int, int]] | RocketMQError, group: str, queue: MessageQueue
) -> int | None:
    if isinstance(table, RocketMQError):
        return 0  # the table failed: keep the broker's answer for the single queue
    offset = table.get(f"{queue.topic}@{group}", {}).get(queue.queue_id, -1)
    return offset if offset >= 0 else None  # an offset is removed by committing -1


def _add_ranges(admin: AdminSession, queues: Sequence[QueueProgress]) -> list[TargetError]:
    """Fill in the minimum offset, one request per broker and topic."""
    pairs = sorted({(progress.address, progress.queue.topic) for progress in queues})
    answers = admin.call_all(
        [
            (address, build_request(RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic}))
            for address, topic in pairs
        ]
    )
    ranges: dict[tuple[str, MessageQueue], int] = {}
    errors: list[TargetError] = []
    for (address, topic), answer in zip(pairs, answers, strict=True):
        if isinstance(answer, Reply):
            for queue, found in answer.value.offset_table.items():
                ranges[address, queue] = found.min_offset
        elif not _is_unknown_topic(answer):
            errors.append(describe(answer, address=address, target=topic))
    for progress in queues:
        progress.min_offset = ranges.get((progress.address, progress.queue))
    return errors


def add_ages(admin: AdminSession, groups: Mapping[str, Sequence[QueueProgress]]) -> None:
    """Fill in the age of the oldest message not yet consumed, if there is one.

    One request per broker, group and topic with a lag, a bounded number at once. The age stays
    None for a broker that fails, without an error: the lag itself is known.
    """
    lagging = [
        (group, one)
        for group, queues in groups.items()
        for one in queues
        if one.state in (OK, BELOW_MIN)
    ]
    places = sorted({(one.address, group, one.queue.topic) for group, one in lagging if one.lag})
    answers = call_bounded(
        admin,
        [
            (
                address,
                build_request(
                    RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group}
                ),
            )
            for address, group, topic in places
        ],
    )
    ages: dict[tuple[str, str, MessageQueue], int] = {}
    for (address, group, _), answer in zip(places, answers, strict=True):
        if isinstance(answer, Reply):
            for span in answer.value.consume_time_span_set:
                # a span without a last message has no age either
                if span.message_queue is not None and 0 <= span.delay_time < span.max_time_stamp:
                    ages[address, group, span.message_queue] = span.delay_time
    for group, one in lagging:
        one.behind_ms = ages.get((one.address, group, one.queue)) if one.lag else 0


def state_of(progress: QueueProgress) -> str:
    """Return the state that the offsets of a queue show."""
    if progress.broker_offset is None:
        return UNKNOWN
    if progress.committed is None:
        return NO_OFFSET
    if progress.committed > progress.broker_offset:
        return AHEAD
    if progress.min_offset is not None and progress.committed < progress.min_offset:
        return BELOW_MIN
    return OK


def _unknown_queues(admin: AdminSession, topic: str, place: Place) -> list[QueueProgress]:
    return [
        QueueProgress(queue=queue, address=place.address)
        for queue in route_of(admin, topic).subscribe_queues()
        if queue.broker_name == place.broker_name
    ]


def _is_unknown_topic(error: RocketMQError) -> bool:
    return isinstance(error, BrokerError) and error.code == ResponseCode.TOPIC_NOT_EXIST
