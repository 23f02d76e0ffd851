"""Dead letters: counts, ages, growth."""

import pytest

from broker.common.clock import ManualClock
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.dlq.library import DlqAdmin

HOUR_MS = 3_600_000


@pytest.fixture
def dlq(admin, cluster):
    return DlqAdmin(admin, cluster.clock)


def test_one_record_per_group_with_dead_letters(dlq, cluster, broker_a, broker_b) -> None:
    begin = cluster.clock.now_ms()
    broker_a.store("%DLQ%g1")
    cluster.clock.advance(2 * HOUR_MS)
    broker_b.store("%DLQ%g1")
    broker_b.store("%DLQ%g1")
    broker_a.store("%DLQ%g2")
    broker_a.store("orders")
    first, second = dlq.list().items
    assert (first.group, first.messages, first.growth_per_hour) == ("g1", 3, 2)
    assert first.oldest_timestamp == begin
    assert first.newest_timestamp == cluster.clock.now_ms()
    assert (second.group, second.topic, second.messages) == ("g2", "%DLQ%g2", 1)


def test_expired_dead_letters_are_not_counted(dlq, broker_a) -> None:
    for _ in range(4):
        broker_a.store("%DLQ%g")
    broker_a.expire("%DLQ%g", 0, 3)
    assert dlq.list(group="g").items[0].messages == 1


def test_an_empty_dlq_has_no_times(dlq, broker_a) -> None:
    broker_a.store("%DLQ%g")
    broker_a.queues.clear()
    (record,) = dlq.list().items
    assert (record.messages, record.oldest_timestamp, record.newest_timestamp) == (0, None, None)
    assert record.growth_per_hour == 0


def test_a_group_without_dlq_has_no_record(dlq) -> None:
    assert dlq.list(group="unknown").items == []


def test_a_dead_broker_is_an_error(dlq, broker_a, broker_b) -> None:
    broker_a.store("%DLQ%g")
    broker_b.store("%DLQ%g")
    broker_b.down = True
    listing = dlq.list()
    assert listing.items[0].messages == 1
    assert [error.target for error in listing.errors] == ["broker-b"]


def test_show_reads_them_oldest_first(admin, cluster, broker_a) -> None:
    for number in range(3):
        broker_a.store("%DLQ%g", keys=str(number))
        cluster.clock.advance(10)
    result = admin.dlq.show("g", max_items=2)
    assert [item.keys for item in result.items] == [["0"], ["1"]]
    assert result.truncated


def test_show_reports_a_group_without_dlq(admin) -> None:
    result = admin.dlq.show("g")
    assert result.kind == "noSuchTopic"
    assert "none of its messages became a dead letter" in result.detail


def test_an_unreadable_dlq_is_refused_not_empty(admin, broker_a) -> None:
    broker_a.store("%DLQ%g")
    broker_a.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION, "no reading")
    result = admin.dlq.show("g")
    assert result.kind == "refused"


def test_the_clock_is_a_parameter(admin) -> None:
    assert DlqAdmin(admin, ManualClock(5)).list().items == []
