"""Segments of static topics become rows; offsets that are not decided are null."""

from broker.remoting.protocol.body.namesrv.route import LogicQueueMappingItem as Item
from mqadmin.system_topics.segments import rows_of_queue


def test_only_the_last_segment_of_a_queue_receives_messages() -> None:
    items = [
        Item(gen=0, bname="a", queue_id=3, end_offset=8),
        Item(gen=1, bname="b", queue_id=1, logic_offset=-1),
    ]
    rows = list(rows_of_queue("T", 7, items, epoch=5, total_queues=9))
    assert [(row.broker_name, row.broker_queue_id, row.sends) for row in rows] == [
        ("a", 3, False), ("b", 1, True)
    ]  # fmt: skip
    assert [(row.logic_offset, row.end_offset) for row in rows] == [(0, 8), (None, None)]
    assert {(row.topic, row.queue_id, row.epoch, row.total_queues) for row in rows} == {
        ("T", 7, 5, 9)
    }


def test_a_queue_without_segments_has_no_rows() -> None:
    assert list(rows_of_queue("T", 0, [], epoch=1, total_queues=1)) == []


def test_a_single_segment_receives_messages() -> None:
    (row,) = rows_of_queue("T", 0, [Item(gen=4, bname="a", queue_id=2)], epoch=1, total_queues=1)
    assert (row.gen, row.sends, row.start_offset) == (4, True, 0)


def test_offset_zero_is_decided_and_minus_one_is_not() -> None:
    items = [Item(gen=0, bname="a", logic_offset=0, end_offset=0), Item(gen=1, bname="a")]
    first, last = rows_of_queue("T", 0, items, epoch=1, total_queues=1)
    assert (first.logic_offset, first.end_offset) == (0, 0)
    assert last.end_offset is None


def test_rows_follow_the_order_of_the_segments(rng) -> None:
    generations = rng.sample(range(100), 20)
    items = [Item(gen=number, bname=f"b{number}") for number in generations]
    rows = list(rows_of_queue("T", 3, items, epoch=2, total_queues=4))
    assert [row.gen for row in rows] == generations
    assert [row.sends for row in rows] == [False] * 19 + [True]
