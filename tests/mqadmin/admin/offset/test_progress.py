"""The facts behind lag: committed or never, old and new brokers, ranges."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.offset.progress import committed_offsets, group_progress, places_of

VERSION_4_9_8 = 409


def queues(count=3):
    return [("10.0.0.1:10911", MessageQueue("t", "broker-a", number)) for number in range(count)]


@pytest.mark.parametrize("version", [479, VERSION_4_9_8])
def test_committed_zero_and_never_committed_differ_on_every_release(
    admin, broker_a, version
) -> None:
    broker_a.version = version
    broker_a.store("t")
    broker_a.committed("g", "t").update({0: 0, 1: 7})
    assert committed_offsets(admin, "g", queues()) == [0, 7, None]


def test_an_old_broker_is_asked_for_its_table_once(admin, cluster, broker_a) -> None:
    broker_a.version = VERSION_4_9_8
    broker_a.store("t")
    committed_offsets(admin, "g", queues())
    assert len(cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET)) == 1


def test_an_old_broker_that_hides_its_table_is_believed(admin, broker_a) -> None:
    broker_a.version = VERSION_4_9_8
    broker_a.store("t")
    broker_a.refuse(RequestCode.GET_ALL_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    assert committed_offsets(admin, "g", queues()) == [0, 0, 0]


def test_a_queue_that_cannot_be_asked_is_an_error_in_its_place(admin, broker_a) -> None:
    broker_a.down = True
    assert all(isinstance(one, RocketMQError) for one in committed_offsets(admin, "g", queues()))


def test_places_are_readers_or_the_route(admin, cluster, broker_a) -> None:
    broker_a.store("t")
    cluster.add("broker-c", broker_id=2)
    assert [place.broker_name for place in places_of(admin, None)] == [
        "broker-a",
        "broker-b",
        "broker-c",
    ]
    assert [place.broker_name for place in places_of(admin, "t")] == ["broker-a"]
    with pytest.raises(ClientError, match="no route"):
        places_of(admin, "nope")


def test_requests_do_not_grow_with_the_queues(admin, cluster, broker_a) -> None:
    """One question per broker and topic; single queues are asked only where they are at 0."""
    for number in range(4):
        broker_a.store("t", number)
        broker_a.committed("g", "t")[number] = 1
    group_progress(admin, "g")
    codes = [code for _, code in cluster.calls]
    assert sorted(codes) == [106, 202, 208, 208]


def test_ages_are_asked_only_where_there_is_a_lag(admin, cluster, broker_a) -> None:
    for _ in range(3):
        broker_a.store("t")
        broker_a.store("u")
    broker_a.committed("g", "t")[0] = 3
    broker_a.committed("g", "u")[0] = 1
    group_progress(admin, "g", ages=False)
    assert not cluster.asked(RequestCode.QUERY_CONSUME_TIME_SPAN)
    progress = group_progress(admin, "g")
    assert len(cluster.asked(RequestCode.QUERY_CONSUME_TIME_SPAN)) == 1
    ages = {one.queue.topic: one.behind_ms for one in progress.queues if one.queue.queue_id == 0}
    assert ages == {"t": 0, "u": 0}


def test_the_committed_offset_of_a_revive_queue_is_that_of_its_last_check_point(
    admin, cluster, broker_a
) -> None:
    topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
    broker_a.store(topic)
    broker_a.store(topic)
    for committed, lag in ((0, 1), (1, 0)):
        broker_a.committed("CID_RMQ_SYS_REVIVE_GROUP", topic)[0] = committed
        (one,) = [
            one
            for one in group_progress(admin, "CID_RMQ_SYS_REVIVE_GROUP").queues
            if one.queue.queue_id == 0
        ]
        assert (one.committed, one.lag, one.state) == (committed, lag, "ok")


def test_a_model_of_states(admin, cluster, broker_a, rng) -> None:
    """Whatever was stored, expired and committed, the state follows from the three numbers."""
    expected = {}
    for number in range(4):
        count = rng.randrange(1, 12)
        for _ in range(count):
            broker_a.store("t", number)
        low = rng.randrange(count)
        broker_a.expire("t", number, low)
        committed = rng.choice([None, *range(count + 3)])
        if committed is None:
            expected[number] = "noOffset"
            continue
        broker_a.committed("g", "t")[number] = committed
        expected[number] = "ahead" if committed > count else "belowMin" if committed < low else "ok"
    found = group_progress(admin, "g", "t").queues
    assert {one.queue.queue_id: one.state for one in found} == expected
    for one in found:
        if one.committed is not None:
            assert one.lag == one.broker_offset - one.committed


def test_the_rate_is_the_sum_over_brokers(admin) -> None:
    assert group_progress(admin, "g").consume_tps == 5.0
