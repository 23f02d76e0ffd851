"""Reading queues: which, from where, how far."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.queue_reader import QueueReader
from mqadmin.admin.message.read import (
    Reader,
    chosen_queues,
    oldest_store_time,
    query_offset,
    query_time,
    time_ranges,
)


@pytest.fixture
def consumer(admin):
    return QueueReader(admin, routes=admin.routes)


class TestChosenQueues:
    def test_all_of_one_broker_or_one(self, admin, broker_a, broker_b):
        broker_a.store("t")
        broker_b.store("t")
        route = admin.routes.get("t")
        assert len(chosen_queues(route)) == 8
        assert {queue.broker_name for queue in chosen_queues(route, "broker-b")} == {"broker-b"}
        assert chosen_queues(route, "broker-b", 3) == [MessageQueue("t", "broker-b", 3)]

    def test_a_missing_name_is_reported_with_the_existing_ones(self, admin, broker_a):
        broker_a.store("t")
        route = admin.routes.get("t")
        with pytest.raises(ClientError, match=r"broker x has no topic t \(it is on broker-a\)"):
            chosen_queues(route, "x")
        with pytest.raises(ClientError, match="has no queue 4 on broker-a"):
            chosen_queues(route, "broker-a", 4)

    def test_a_topic_without_read_permission_is_made_readable_by_the_hint(self, admin, broker_a):
        broker_a.store("t")
        admin.topic.apply(admin.topic.plan_update("t", perm=2))
        with pytest.raises(ClientError, match="topic t has no readable queue") as refused:
            chosen_queues(admin.routes.get("t"))
        assert refused.value.hint == "mqadmin topic perm t rw makes it readable"


class TestTimeRanges:
    def queues(self, admin):
        return admin.routes.get("t").subscribe_queues()[:1]

    def test_open_sides_are_the_whole_queue(self, admin, consumer, broker_a):
        for _ in range(5):
            broker_a.store("t")
        broker_a.expire("t", 0, 2)
        ((part,), errors) = time_ranges(consumer, self.queues(admin), None, None)
        assert (part.begin, part.end, part.min_offset, part.max_offset) == (2, 5, 2, 5)
        assert errors == []

    def test_one_more_on_each_side_for_brokers_that_answer_the_nearest(
        self, admin, consumer, cluster, broker_a
    ):
        times = []
        for _ in range(6):
            times.append(broker_a.store("t").store_timestamp)
            cluster.clock.advance(1_000)
        ((part,), _) = time_ranges(consumer, self.queues(admin), times[2], times[4])
        assert (part.begin, part.end) == (1, 5)

    def test_a_queue_that_cannot_be_asked_is_an_error(self, admin, consumer, broker_a):
        broker_a.store("t")
        queues = self.queues(admin)
        broker_a.refuse(29, 1, "broken")
        parts, errors = time_ranges(consumer, queues, 5, None)
        assert parts == []
        assert [error.target for error in errors] == ["t broker-a/0"]


class TestReader:
    def parts(self, admin, consumer):
        parts, _ = time_ranges(consumer, admin.routes.get("t").subscribe_queues(), None, None)
        return parts

    def test_in_order_of_time_over_queues(self, admin, consumer, cluster, broker_a, broker_b, rng):
        for _ in range(100):
            cluster.clock.advance(rng.randrange(3))
            rng.choice([broker_a, broker_b]).store("t", rng.randrange(4))
        reader = Reader(consumer, limit=1_000)
        times = [
            one.store_timestamp
            for _, one in reader.read_all(self.parts(admin, consumer), lambda one: True)
        ]
        assert times == sorted(times)
        assert (len(times), reader.scanned, reader.cut) == (100, 100, False)

    def test_only_wanted_rows_are_returned_but_all_are_counted(self, admin, consumer, broker_a):
        for number in range(9):
            broker_a.store("t", keys=str(number))
        reader = Reader(consumer, limit=1_000)
        found = list(reader.read_all(self.parts(admin, consumer), lambda one: one.keys == ["7"]))
        assert [one.queue_offset for _, one in found] == [7]
        assert reader.scanned == 9

    def test_the_limit_cuts(self, admin, consumer, broker_a):
        for _ in range(9):
            broker_a.store("t")
        reader = Reader(consumer, limit=4)
        assert len(list(reader.read_all(self.parts(admin, consumer), lambda one: True))) == 4
        assert reader.cut

    def test_a_queue_that_fails_leaves_the_others(self, admin, consumer, broker_a, broker_b):
        broker_a.store("t")
        broker_b.store("t")
        parts = self.parts(admin, consumer)
        broker_b.down = True
        reader = Reader(consumer, limit=100)
        found = list(reader.read_all(parts, lambda one: True))
        assert [name for name, _ in found] == ["broker-a"]
        assert [error.target for error in reader.errors] == ["t broker-b/0"]


def test_the_oldest_time_of_several_queues(admin, consumer, cluster, broker_a) -> None:
    first = broker_a.store("t", 1).store_timestamp
    cluster.clock.advance(50)
    broker_a.store("t", 0)
    queues = [MessageQueue("t", "broker-a", number) for number in range(3)]
    assert oldest_store_time(admin, consumer, queues) == first
    assert oldest_store_time(admin, consumer, queues[2:]) is None
    broker_a.down = True
    assert oldest_store_time(admin, consumer, queues) is None


class TestQueryOffset:
    """The message at an offset, or the reason why there is none."""

    def query(self, admin, offset, count=1):
        queue = MessageQueue("t", "broker-a", 0)
        return query_offset(admin, admin.routes.get("t"), queue, offset, count=count)

    def test_one_message_or_a_run_of_them(self, admin, broker_a):
        for _ in range(70):
            broker_a.store("t")
        assert [item.queue_offset for item in self.query(admin, 7).items] == [7]
        run = [item.queue_offset for item in self.query(admin, 5, count=50).items]
        assert run == list(range(5, 55))
        assert len(self.query(admin, 68, count=50).items) == 2

    def test_an_offset_past_the_end_is_not_written_yet(self, admin, broker_a):
        broker_a.store("t")
        result = self.query(admin, 1)
        assert (result.kind, list(result.items)) == (kinds.NOT_WRITTEN, [])
        assert result.detail.endswith("t broker-a/0 keeps queue offsets 0 to 0")

    def test_an_empty_queue_is_named_as_such(self, admin, broker_a):
        broker_a.store("t", 1)
        result = self.query(admin, 0)
        assert result.kind == kinds.NOT_WRITTEN
        assert result.detail.endswith("t broker-a/0 is empty")

    def test_an_offset_before_the_first_kept_one_has_expired(self, admin, broker_a):
        for _ in range(5):
            broker_a.store("t")
        broker_a.expire("t", 0, 3)
        result = self.query(admin, 2)
        assert result.kind == kinds.DATA_DELETED
        assert result.detail == (
            "queue offset 2 has expired: t broker-a/0 keeps queue offsets 3 to 4"
        )

    def test_a_broker_that_fails_is_an_error_and_no_statement_about_the_message(
        self, admin, broker_a
    ):
        broker_a.store("t")
        admin.routes.get("t")
        broker_a.down = True
        result = self.query(admin, 0)
        assert result.kind not in (kinds.FOUND, kinds.NOT_WRITTEN, kinds.DATA_DELETED)
        assert [error.target for error in result.errors] == ["t broker-a/0"]


class TestQueryTime:
    """Messages of a window, or the reason why it is empty."""

    def query(self, admin, begin, end, max_items=10):
        queues = admin.routes.get("t").subscribe_queues()
        return query_time(admin, queues, (begin, end), max_items=max_items)

    def fill(self, broker, clock, count):
        times = []
        for number in range(count):
            times.append(broker.store("t", number % 2).store_timestamp)
            clock.advance(1_000)
        return times

    def test_the_window_includes_its_begin_and_not_its_end(self, admin, cluster, broker_a):
        times = self.fill(broker_a, cluster.clock, 8)
        found = self.query(admin, times[2], times[5])
        assert [item.store_timestamp for item in found.items] == times[2:5]
        assert (found.truncated, found.begin_timestamp, found.end_timestamp) == (
            False,
            times[2],
            times[5],
        )

    def test_the_oldest_messages_are_kept_if_there_are_more(self, admin, cluster, broker_a):
        times = self.fill(broker_a, cluster.clock, 8)
        found = self.query(admin, None, None, max_items=3)
        assert [item.store_timestamp for item in found.items] == times[:3]
        assert found.truncated
        assert not self.query(admin, None, None, max_items=8).truncated

    def test_a_quiet_window_and_an_expired_one_differ(self, admin, cluster, broker_a):
        times = self.fill(broker_a, cluster.clock, 6)
        quiet = self.query(admin, times[-1] + 5_000, None)
        assert (quiet.kind, quiet.detail) == (
            kinds.NOT_FOUND,
            "no message was stored in the window",
        )
        broker_a.expire("t", 0, 2)
        broker_a.expire("t", 1, 2)
        expired = self.query(admin, times[0] - 10, times[1])
        assert expired.kind == kinds.DATA_DELETED
        assert expired.begin_timestamp is not None
        assert expired.begin_timestamp >= times[1]

    def test_a_failed_broker_makes_an_empty_result_a_failure(self, admin, broker_a):
        broker_a.store("t")
        admin.routes.get("t")
        broker_a.down = True
        result = self.query(admin, None, None)
        assert not result.items
        assert result.errors
