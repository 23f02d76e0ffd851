"""Mappings of static topics: the newest segments, logical offsets, the name that clients see."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import LogicQueueMappingItem as Item
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.mappings import (
    is_static,
    logical_offset,
    mock_broker_name,
    newest_segments,
    read_mappings,
)
from mqadmin.admin.topics.remapping import remapped
from tests.support.fake_brokers import FakeCluster
from tests.support.static_topics import Served, static


@pytest.mark.parametrize(
    ("item", "offset", "expected"),
    [
        (Item(logic_offset=0), 7, 7),
        (Item(logic_offset=10_000, start_offset=3), 5, 10_002),
        (Item(logic_offset=10_000, start_offset=3), 1, 10_000),
        (Item(logic_offset=0, end_offset=4), 9, 4),
    ],
)
def test_offsets_are_moved_into_the_range_of_the_segment(
    item: Item, offset: int, expected: int
) -> None:
    assert logical_offset(item, offset) == expected


def test_the_broker_with_the_newest_segment_decides() -> None:
    present = static("T", 2, ["a"])
    after, _ = remapped("T", present, ["b"], 1_000)
    mixed = {"a": present["a"], "b": after["b"]}
    for names in (("a", "b"), ("b", "a")):
        found = newest_segments("T", {name: mixed[name] for name in names})
        assert [len(items) for items in found.values()] == [2, 2]


def test_of_one_segment_that_with_its_first_offset_decides() -> None:
    """The old owner of a queue does not get the first offset of the new segment."""
    after, _ = remapped("T", static("T", 1, ["a"]), ["b"], 1_000)
    detail = after["b"].mapping_detail
    assert detail is not None
    assert detail.hosted_queues is not None
    *closed, leader = detail.hosted_queues[0]
    detail.hosted_queues[0] = [*closed, Item(gen=leader.gen, bname="b", logic_offset=10_000)]
    for names in (("a", "b"), ("b", "a")):
        found = newest_segments("T", {name: after[name] for name in names})
        assert found[0][-1].logic_offset == 10_000


def test_a_queue_that_no_broker_has_is_an_error() -> None:
    present = static("T", 4, ["a", "b"])
    del present["b"]
    with pytest.raises(ClientError, match="no broker has queue 1 of 4"):
        newest_segments("T", present)


@pytest.mark.parametrize(
    ("scope", "name"), [("__global__", "__syslo__global__"), ("zone", "__syslo__zone")]
)
def test_the_broker_name_of_logical_queues_contains_the_scope(scope: str, name: str) -> None:
    assert mock_broker_name(scope) == name


def test_only_brokers_with_the_topic_have_a_mapping(admin: MQAdmin, cluster: FakeCluster) -> None:
    Served(cluster, static("T", 2, ["broker-a"]))
    assert list(read_mappings(admin, "T")) == ["broker-a"]
    assert read_mappings(admin, "Absent") == {}
    assert not is_static(admin, "Absent")
