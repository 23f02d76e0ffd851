"""Delay levels of a running broker."""

import pytest

from broker.errors import ClientError, ConfigError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.system_topics.delay_levels import DelayFilter
from mqadmin.system_topics.timers import TimerFilter
from tests.support.fake_brokers import FakeCluster
from tests.support.live_broker import send, until


def test_a_level_shows_its_backlog_and_its_next_delivery(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    assert {row.backlog for row in library.delay.levels().items} == {0}
    for key in ("a", "b"):
        send(broker, "T", key, DELAY=14)
    send(broker, "U", "c", DELAY=18)
    rows = until(lambda: [row for row in library.delay.levels().items if row.backlog] or None)
    rows = until(lambda: [row for row in library.delay.levels().items if row.backlog])
    assert [(row.level, row.delay_ms, row.backlog) for row in rows] == [
        (14, 600_000, 2),
        (18, 7_200_000, 1),
    ]
    assert all(0 < row.next_due_in_ms <= row.delay_ms for row in rows)


def test_waiting_messages_come_by_time_of_delivery_and_are_selected(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    send(broker, "V", "late", DELAY=17)
    send(broker, "V", "soon", DELAY=16)
    found = until(
        lambda: (
            len((listing := library.delay.pending(DelayFilter(topic="V"))).items) == 2 and listing
        )
    )
    assert [(row.keys, row.level) for row in found.items] == [(["soon"], 16), (["late"], 17)]
    only = library.delay.pending(DelayFilter(level=17)).items
    assert [row.keys for row in only] == [["late"]]
    cut = library.delay.pending(DelayFilter(topic="V"), limit=1)
    assert (len(cut.items), cut.truncated) == (1, True)


def test_a_level_that_no_broker_has_is_refused_with_the_range(library: MQAdmin) -> None:
    with pytest.raises(ConfigError, match="--level: must be between 1 and 18, not 99"):
        library.delay.pending(DelayFilter(level=99))


def test_no_message_of_an_unknown_topic_is_not_an_empty_result(library: MQAdmin) -> None:
    with pytest.raises(ClientError, match="topic nosuch has no route") as refused:
        library.delay.pending(DelayFilter(topic="nosuch"))
    assert refused.value.hint == "mqadmin topic list lists the topics"
    with pytest.raises(ClientError, match="topic nosuch has no route"):
        library.timer.list(TimerFilter(topic="nosuch"))


def test_a_topic_without_a_route_has_a_next_step_everywhere(library: MQAdmin) -> None:
    with pytest.raises(ClientError) as of_status:
        library.topic.status("nosuch")
    with pytest.raises(ClientError) as of_tail:
        next(library.message.tail("nosuch"))
    hints = {of_status.value.hint, of_tail.value.hint}
    assert hints == {"mqadmin topic list lists the topics"}


def test_a_broker_that_does_not_answer_is_not_a_broker_without_a_backlog() -> None:
    cluster = FakeCluster()
    broker_a = cluster.add("broker-a")
    broker_a.on_45 = lambda header, command: b'{"offsetTable":{}}'
    broker_a.refuse(RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR)
    found = cluster.admin().delay.levels()
    assert (found.items, [error.target for error in found.errors]) == ([], ["broker-a"])
