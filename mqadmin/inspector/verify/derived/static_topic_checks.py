"""Compare the mappings of static topics (topicQueueMapping.json) with topics and queues.

A mapping lists the segments of each logical queue, oldest first. Their generations and logical
offsets increase, no logical offset belongs to two segments, and the queues of this broker's
segments exist. An old segment without an end is valid: the start of the next one bounds it.

**Source:** RocketMQ TopicQueueMappingUtils#checkLogicQueueMappingItemOffset,
#checkAndBuildMappingItems, #checkNameEpochNumConsistence.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
    TopicQueueMappingDetail,
)
from mqadmin.inspector.damage import ERROR, WARNING
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.static_topics import KIND, read_mappings
from mqadmin.inspector.verify.report import Findings

Item = LogicQueueMappingItem
MaxOffsets = Mapping[tuple[str, int], int]


class _Problem(NamedTuple):
    """The text of a finding, and its severity."""

    detail: str
    severity: str = ERROR


def check_static_topics(
    store: StoreDirectory,
    findings: Findings,
    topics: Mapping[str, int] | None,
    ends: MaxOffsets | None,
    topic: str | None = None,
) -> None:
    """Report mappings that contradict themselves, the topics or the queues of the store.

    ``topics`` is the number of queues by topic, None if topics.json cannot be read; ``ends`` the
    ends of the queues, None while a broker moves them. A file that is not JSON was reported with
    the other configuration files.
    """
    path, mappings, damage = read_mappings(store)
    known = {(row.kind, row.path) for row in findings.rows}
    for row in damage:
        if (row.kind, row.path) not in known:
            findings.take(row)
    for name, detail in sorted(mappings.items()):
        if topic in (None, name):
            for problem in _problems(name, detail, topics, ends):
                text = f"{name}: {problem.detail}"
                findings.add(KIND, path, text, severity=problem.severity)


def _problems(
    topic: str,
    detail: TopicQueueMappingDetail,
    topics: Mapping[str, int] | None,
    ends: MaxOffsets | None,
) -> Iterator[_Problem]:
    if detail.topic != topic:
        yield _Problem(f"its mapping is of topic {detail.topic}")
    if detail.epoch < 0:
        yield _Problem(f"epoch {detail.epoch} is negative")
    if topics is not None and topic not in topics:
        yield _Problem("a static topic that is not in topics.json")
    count = None if topics is None else topics.get(topic)
    places: dict[tuple[str, int], int] = {}
    for queue_id, items in sorted((detail.hosted_queues or {}).items()):
        where = f"queue {queue_id}"
        if not 0 <= queue_id < detail.total_queues:
            yield _Problem(f"{where}, of {detail.total_queues} queues")
        if not items:
            yield _Problem(f"{where} has no segments")
        for problem in _order(items):
            yield problem._replace(detail=f"{where}: {problem.detail}")
        for number, item in enumerate(items):
            if item.bname != detail.bname:
                continue
            later = items[number + 1] if number + 1 < len(items) else None
            end = None if ends is None else ends.get((topic, item.queue_id), 0)
            for problem in _stored(item, later, count, end):
                yield problem._replace(detail=f"{where}: {problem.detail}")
            other = places.setdefault((item.bname, item.queue_id), queue_id)
            if other != queue_id:
                text = f"{where} and queue {other} both use queue {item.queue_id} of {item.bname}"
                yield _Problem(text)


def _order(items: list[Item]) -> Iterator[_Problem]:
    """Check each segment, and each with the next one."""
    for item in items:
        if item.gen < 0 or item.queue_id < 0 or item.start_offset < 0:
            yield _Problem(
                f"segment {item.gen} has queue {item.queue_id}, start offset {item.start_offset}"
            )
        if 0 <= item.end_offset < item.start_offset:
            yield _Problem(
                f"segment {item.gen} ends at offset {item.end_offset}, before its start"
                f" {item.start_offset}"
            )
    for item, later in itertools.pairwise(items):
        if later.gen <= item.gen:
            yield _Problem(f"segment {later.gen} follows segment {item.gen}")
        if item.logic_offset < 0:
            yield _Problem(f"the logical offset of segment {item.gen} is not decided")
        elif 0 <= later.logic_offset < item.logic_offset:
            yield _Problem(
                f"segment {later.gen} starts at logical offset {later.logic_offset}, segment"
                f" {item.gen} at {item.logic_offset}"
            )
        elif item.end_offset >= 0 and 0 <= later.logic_offset < _logical_end(item, item.end_offset):
            yield _overlap(item, later, item.end_offset)


def _stored(
    item: Item, later: Item | None, count: int | None, end: int | None
) -> Iterator[_Problem]:
    """Check a segment of this broker; ``count`` and ``end`` are those of its topic and queue."""
    queue = f"queue {item.queue_id} of this broker"
    if count is not None and item.queue_id >= count:
        yield _Problem(f"segment {item.gen}: {queue} does not exist, the topic has {count}")
    elif end is None:
        return
    elif item.end_offset > end:
        yield _Problem(
            f"segment {item.gen} ends at offset {item.end_offset}, {queue} at {end}", WARNING
        )
    elif (
        later is not None
        and item.end_offset < 0
        and 0 <= item.logic_offset <= later.logic_offset < _logical_end(item, end)
    ):
        yield _overlap(item, later, end)


def _logical_end(item: Item, end: int) -> int:
    return item.logic_offset + end - item.start_offset


def _overlap(item: Item, later: Item, end: int) -> _Problem:
    return _Problem(
        f"segment {item.gen} ends at logical offset {_logical_end(item, end)}, segment {later.gen}"
        f" starts at {later.logic_offset}: they overlap"
    )
