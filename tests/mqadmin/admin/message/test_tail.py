"""Following a topic over brokers that fail and start again."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ConnectError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.message.tail import RETRY_AFTER_MS, Follower, TailQuestion, tail


@pytest.fixture
def consumer(admin):
    return QueueReader(admin, routes=admin.routes)


class TestFollower:
    def test_each_message_once_in_order_of_time(self, consumer, cluster, broker_a, rng):
        broker_a.store("t")
        starts = {MessageQueue("t", "broker-a", number): 0 for number in range(4)}
        follower = Follower(consumer, starts, "*")
        seen = [one.physical_offset for _, one in follower.round()]
        for _ in range(20):
            for _ in range(rng.randrange(4)):
                cluster.clock.advance(1)
                broker_a.store("t", rng.randrange(4))
            seen += [one.physical_offset for _, one in follower.round()]
        assert seen == sorted(broker_a.log)

    def test_a_queue_without_a_valid_offset_resumes_where_the_broker_directs(
        self, consumer, broker_a
    ):
        for _ in range(5):
            broker_a.store("t")
        broker_a.expire("t", 0, 3)
        follower = Follower(consumer, {MessageQueue("t", "broker-a", 0): 1}, "*")
        assert follower.round() == []
        assert [one.queue_offset for _, one in follower.round()] == [3, 4]

    def test_failures_are_counted_per_round(self, consumer, broker_a, broker_b):
        broker_a.store("t")
        broker_b.store("t")
        queues = {MessageQueue("t", name, 0): 1 for name in ("broker-a", "broker-b")}
        follower = Follower(consumer, queues, "*")
        follower.round()
        broker_b.down = True
        follower.round()
        assert [type(error) for error in follower.errors] == [ConnectError]
        assert not follower.failed_everywhere
        broker_a.down = True
        follower.round()
        assert follower.failed_everywhere

    def test_a_broker_that_fails_is_reported_once_and_asked_again_later(
        self, consumer, cluster, broker_a, broker_b
    ):
        broker_a.store("t")
        broker_b.store("t", 1)
        queues = {MessageQueue("t", "broker-a", 0): 0, MessageQueue("t", "broker-b", 1): 0}
        follower = Follower(consumer, queues, "*", cluster.clock)
        broker_b.silent = True
        assert [name for name, _ in follower.round()] == ["broker-a"]
        assert len(follower.new_errors) == 1
        pulls = cluster.asked(RequestCode.PULL_MESSAGE).count(broker_b.address)
        for _ in range(5):
            assert follower.round() == []
            assert follower.new_errors == []
        assert cluster.asked(RequestCode.PULL_MESSAGE).count(broker_b.address) == pulls
        cluster.clock.advance(RETRY_AFTER_MS)
        follower.round()
        assert (len(follower.errors), follower.new_errors) == (1, [])
        broker_b.silent = False
        cluster.clock.advance(RETRY_AFTER_MS)
        assert [name for name, _ in follower.round()] == ["broker-b"]
        assert follower.errors == []


def test_a_silent_broker_is_named_and_the_others_are_followed(admin, broker_a, broker_b) -> None:
    broker_a.store("t", body=b"a")
    broker_b.store("t", body=b"b")
    broker_b.silent = True
    reported = []
    records = admin.message.tail("t", last=5, follow=False, report=reported.append)
    assert [record.broker_name for record in records] == ["broker-a"]
    assert [error.address for error in reported] == [broker_b.address]  # once, not for each queue


def test_an_error_is_raised_without_any_response(admin, broker_a) -> None:
    broker_a.store("t")
    admin.routes.get("t")
    broker_a.down = True
    with pytest.raises(ConnectError):
        list(admin.message.tail("t", follow=False))


def test_a_tail_ends_after_its_time(admin, cluster, broker_a) -> None:
    broker_a.store("t")
    stream = tail(admin, TailQuestion(topic="t", last=1, for_ms=60_000), print, cluster.clock)
    assert next(stream)[0] == "broker-a"
    cluster.clock.advance(60_000)
    assert list(stream) == []
