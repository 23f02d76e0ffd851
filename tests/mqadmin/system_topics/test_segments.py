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
