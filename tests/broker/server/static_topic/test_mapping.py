"""Segments of logical queues: offsets in both directions, leaders, changes that are refused."""

import pytest

from broker.errors import ClientError
from broker.server.static_topic.mapping import (
    LogicalQueue,
    led_queues,
    logical_offset,
    mapping_info,
    merged,
    queue_offset,
)
from tests.broker.server.static_topic.conftest import mapping, segment

OLD = segment(0, "broker-a", start=5, logic_offset=0, end_offset=8)
NEW = segment(1, "broker-b", start=2, logic_offset=10_000)
MOVED = LogicalQueue("Fixed", 0, "broker-a", [OLD, NEW])


@pytest.mark.parametrize(
    ("item", "offset", "logical"),
    [(OLD, 5, 0), (OLD, 7, 2), (OLD, 8, 3), (OLD, 9, 3), (OLD, 0, 0), (NEW, 2, 10_000)],
)
def test_offsets_of_a_segment_are_bounded_by_it(item, offset: int, logical: int) -> None:
    assert logical_offset(item, offset) == logical
    if item.start_offset <= offset <= max(item.end_offset, item.start_offset):
        assert queue_offset(item, logical) == offset


def test_an_undecided_segment_has_no_logical_offset() -> None:
    assert logical_offset(segment(1, "broker-b", logic_offset=-1), 3) == -1


def test_the_segment_of_an_offset_is_the_newest_that_starts_before_it() -> None:
    assert MOVED.item_at(0) is OLD
    assert MOVED.item_at(9_999) is OLD
    assert MOVED.item_at(10_000) is NEW
    assert MOVED.item_at(-5) is OLD
    undecided = segment(2, "broker-c", logic_offset=-1)
    assert LogicalQueue("Fixed", 0, "broker-a", [OLD, undecided]).item_at(1 << 40) is OLD


def test_the_segment_after_another() -> None:
    assert MOVED.next_item(OLD) is NEW
    assert MOVED.next_item(NEW) is None


def test_the_last_segment_leads() -> None:
    assert MOVED.leader is NEW
    assert not MOVED.is_led
    assert MOVED._replace(bname="broker-b").is_led


def test_the_largest_offset_that_segments_determine() -> None:
    assert MOVED.max_mapped_offset == 10_000
    open_leader = [OLD, segment(1, "broker-b", logic_offset=-1)]
    assert MOVED._replace(items=open_leader).max_mapped_offset == 3
    assert MOVED._replace(items=[open_leader[1]]).max_mapped_offset == 0


def test_name_servers_get_the_led_queues_only() -> None:
    detail = mapping(segment(0, "broker-a"))
    assert led_queues(detail) == {0: 1}
    info = mapping_info(detail)
    assert info.curr_id_map == {0: 1}
    assert (info.topic, info.bname, info.total_queues, info.epoch) == ("Fixed", "broker-a", 2, 1000)
    assert led_queues(mapping(OLD, NEW)) == {}


def test_queues_that_a_change_does_not_name_are_kept() -> None:
    old = mapping(segment(0, "broker-a"), queue_id=0)
    new = merged(old, mapping(segment(0, "broker-a"), queue_id=1, epoch=2000), force=False)
    assert list(new.hosted_queues or {}) == [0, 1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (mapping(OLD, epoch=999), "small epoch"),
        (mapping(segment(0, "broker-b", start=5, end_offset=8), epoch=2000), "cannot be changed"),
        (
            mapping(segment(0, "broker-a", start=5, end_offset=9), epoch=2000),
            "cannot be changed",
        ),
        (mapping(OLD, NEW), "within one epoch"),
    ],
)
def test_a_change_of_decided_values_is_refused_unless_forced(change, reason: str) -> None:
    old = mapping(OLD)
    with pytest.raises(ClientError, match=reason):
        merged(old, change, force=False)
    assert merged(old, change, force=True).epoch == change.epoch


def test_open_values_may_be_decided() -> None:
    old = mapping(segment(0, "broker-a", start=5), segment(1, "broker-b", start=2, logic_offset=-1))
    assert merged(old, mapping(OLD, NEW, epoch=2000), force=False).hosted_queues == {0: [OLD, NEW]}
