"""Messages: every kind of answer, and of "no"."""

import pytest

from broker.errors import ClientError, ConnectError
from broker.message.message_id import compose_uniq_key, offset_msg_id
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.message.record import BodyView

TEXT = BodyView(encoding="text")
UNIQ = compose_uniq_key("192.0.2.1", 4711, 0x1B2C3D4E, 1000, 1)


class TestKey:
    def test_found_on_any_broker_in_order_of_time(self, admin, cluster, broker_a, broker_b):
        broker_b.store("orders", keys="42 x", body=b"first")
        cluster.clock.advance(5)
        broker_a.store("orders", keys="42", body=b"second")
        result = admin.message.query_key("orders", "42", body=TEXT)
        assert result.kind == "found"
        assert [(i.broker_name, i.body) for i in result.items] == [
            ("broker-b", "first"),
            ("broker-a", "second"),
        ]
        assert not result.truncated

    def test_brokers_are_asked_once_each(self, admin, cluster, broker_a, broker_b):
        broker_a.store("orders", keys="42")
        broker_b.store("orders", keys="42")
        admin.message.query_key("orders", "42")
        assert [code for _, code in cluster.calls] == [105, 12, 12]

    def test_hits_with_another_key_or_topic_are_dropped(self, admin, broker_a):
        broker_a.store("orders", keys="42")
        broker_a.false_hits = [
            broker_a.store("orders", keys="43").physical_offset,
            broker_a.store("bills", keys="42").physical_offset,
        ]
        result = admin.message.query_key("orders", "42")
        assert [item.keys for item in result.items] == [["42"]]
        assert result.collisions == 2

    def test_only_collisions_is_not_in_index(self, admin, broker_a):
        broker_a.false_hits = [broker_a.store("orders", keys="43").physical_offset]
        result = admin.message.query_key("orders", "42")
        assert (result.kind, result.collisions) == ("notInIndex", 1)

    def test_not_in_index_names_brokers_and_next_step(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders")
        result = admin.message.query_key("orders", "42")
        assert result.kind == "notInIndex"
        assert "broker-a, broker-b" in result.detail
        assert "--scan" in result.hint

    def test_no_such_topic(self, admin):
        assert admin.message.query_key("orders", "42").kind == "noSuchTopic"

    def test_unreachable_is_not_nothing(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders", keys="42")
        broker_b.down = True
        result = admin.message.query_key("orders", "42")
        assert result.kind == "unreachable"
        assert [error.target for error in result.errors] == ["broker-b"]

    def test_refused_is_not_nothing(self, admin, broker_a):
        broker_a.store("orders", keys="42")
        broker_a.refuse(RequestCode.QUERY_MESSAGE, ResponseCode.SYSTEM_ERROR, "index broken")
        result = admin.message.query_key("orders", "42")
        assert result.kind == "refused"
        assert "index broken" in result.errors[0].message

    def test_of_several_failures_the_silent_broker_names_the_answer(
        self, admin, broker_a, broker_b
    ):
        broker_a.store("orders")
        broker_b.store("orders")
        broker_a.refuse(RequestCode.QUERY_MESSAGE, ResponseCode.NO_PERMISSION, "User:x")
        assert admin.message.query_key("orders", "42").kind == "notPermitted"
        broker_b.down = True
        result = admin.message.query_key("orders", "42")
        assert result.kind == "unreachable"
        assert broker_b.address in result.detail
        assert len(result.errors) == 2

    def test_a_result_with_an_unreachable_broker_reports_both(self, admin, broker_a, broker_b):
        broker_a.store("orders", keys="42")
        broker_b.store("orders", keys="42")
        broker_b.silent = True
        result = admin.message.query_key("orders", "42")
        assert result.kind == "found"
        assert [error.kind for error in result.errors] == ["timeout"]

    def test_outside_the_window(self, admin, cluster, broker_a):
        stored = broker_a.store("orders", keys="42")
        result = admin.message.query_key("orders", "42", end_ms=stored.store_timestamp - 1)
        assert result.kind == "outsideWindow"
        assert result.begin_timestamp == result.end_timestamp == stored.store_timestamp
        assert "1 outside" in result.detail

    def test_the_window_is_exact_though_the_index_rounds(self, admin, cluster, broker_a):
        broker_a.store("orders", keys="42")
        cluster.clock.advance(2_900)
        late = broker_a.store("orders", keys="42").store_timestamp
        exact = admin.message.query_key("orders", "42", begin_ms=late, end_ms=late)
        assert [item.store_timestamp for item in exact.items] == [late]
        after = admin.message.query_key("orders", "42", begin_ms=late + 1)
        assert after.kind == "outsideWindow"

    def test_a_window_before_everything_kept_is_deleted_data(self, admin, cluster, broker_a):
        begin = cluster.clock.now_ms()
        broker_a.store("orders", keys="42")
        cluster.clock.advance(60_000)
        broker_a.store("orders")
        broker_a.expire("orders", 0, 1)
        result = admin.message.query_key("orders", "42", end_ms=begin + 10)
        assert result.kind == "dataDeleted"
        assert result.begin_timestamp == cluster.clock.now_ms()

    def test_more_than_max_is_truncated_and_keeps_the_newest(self, admin, cluster, broker_a):
        for number in range(5):
            cluster.clock.advance(1_000)
            broker_a.store("orders", keys="42", body=b"%d" % number)
        result = admin.message.query_key("orders", "42", max_items=3, body=TEXT)
        assert [item.body for item in result.items] == ["2", "3", "4"]
        assert result.truncated
        assert "--limit" in result.hint

    def test_exactly_max_is_not_truncated(self, admin, broker_a):
        for _ in range(3):
            broker_a.store("orders", keys="42")
        result = admin.message.query_key("orders", "42", max_items=3)
        assert (len(result.items), result.truncated) == (3, False)

    def test_pages_go_past_one_batch(self, admin, cluster, broker_a):
        for _ in range(150):
            cluster.clock.advance(1_000)
            broker_a.store("orders", keys="42")
        result = admin.message.query_key("orders", "42", max_items=1000)
        assert (len(result.items), result.truncated) == (150, False)
        assert len({item.queue_offset for item in result.items}) == 150

    def test_a_batch_that_fills_one_second_is_truncated_and_reported(self, admin, broker_a):
        for _ in range(100):
            broker_a.store("orders", keys="42")
        result = admin.message.query_key("orders", "42", max_items=1000)
        assert result.truncated
        assert len(result.items) == 64
        assert "--scan" in result.hint
        full = admin.message.query_key("orders", "42", max_items=1000, scan=True)
        assert (len(full.items), full.truncated) == (100, False)

    def test_older_hits_are_found_after_a_batch_of_collisions(self, admin, cluster, broker_a):
        broker_a.store("orders", keys="42")
        for _ in range(70):
            cluster.clock.advance(1_000)
            broker_a.false_hits.append(broker_a.store("orders", keys="43").physical_offset)
        result = admin.message.query_key("orders", "42")
        assert (result.kind, len(result.items), result.collisions) == ("found", 1, 70)

    def test_unique_keys_ask_for_the_unique_index(self, admin, broker_a):
        broker_a.store("orders", uniq=UNIQ)
        assert admin.message.query_key("orders", UNIQ, unique=True).kind == "found"
        assert admin.message.query_key("orders", UNIQ).kind == "notInIndex"


class TestScan:
    def test_messages_missing_from_the_index_are_found(self, admin, broker_a, broker_b):
        broker_a.store("orders", keys="42", indexed=False)
        broker_b.store("orders", 2, keys="41", indexed=False)
        result = admin.message.query_key("orders", "42", scan=True)
        assert result.kind == "found"
        assert (len(result.items), result.scanned) == (1, 2)

    def test_an_empty_result_names_the_source(self, admin, broker_a):
        broker_a.store("orders")
        result = admin.message.query_key("orders", "42", scan=True)
        assert (result.kind, result.scanned) == ("notFound", 1)
        assert "1 messages of 4 queues" in result.detail

    def test_the_limit_ends_the_command_and_is_reported(self, admin, broker_a):
        for _ in range(9):
            broker_a.store("orders")
        result = admin.message.query_key("orders", "42", scan=True, scan_limit=5)
        assert (result.kind, result.truncated, result.scanned) == ("notFound", True, 5)

    def test_respects_the_window(self, admin, cluster, broker_a):
        broker_a.store("orders", keys="42", indexed=False)
        cluster.clock.advance(10_000)
        late = broker_a.store("orders", keys="42", indexed=False).store_timestamp
        result = admin.message.query_key("orders", "42", scan=True, begin_ms=late - 5)
        assert [item.store_timestamp for item in result.items] == [late]

    def test_a_dead_broker_is_not_nothing(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders", keys="42", indexed=False)
        broker_b.down = True
        assert admin.message.query_key("orders", "42", scan=True).kind == "unreachable"


class TestId:
    def test_the_address_inside_the_id_is_asked_and_no_route(self, admin, cluster, broker_a):
        stored = broker_a.store("orders", body=b"hi")
        result = admin.message.query_id(stored.offset_msg_id.lower(), body=TEXT)
        assert result.kind == "found"
        assert (result.items[0].body, result.items[0].broker_name) == ("hi", "broker-a")
        assert cluster.calls[0] == (broker_a.address, RequestCode.VIEW_MESSAGE_BY_ID)
        assert not cluster.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)

    def test_name_servers_may_be_down(self, cluster, broker_a):
        stored = broker_a.store("orders")
        cluster.namesrvs[0].down = True
        result = cluster.admin().message.query_id(stored.offset_msg_id)
        assert (result.kind, result.items[0].broker_name) == ("found", None)

    def test_inside_a_record(self, admin, broker_a):
        broker_a.store("orders")
        result = admin.message.query_id(offset_msg_id(broker_a.address, 5))
        assert result.kind == "notFound"
        assert "no message starts at physical offset 5" in result.detail

    def test_in_an_empty_log(self, admin, broker_a):
        for begin in (0, -1):  # -1: a Java broker without a file, and ours
            broker_a.log_begin = begin
            result = admin.message.query_id(offset_msg_id(broker_a.address, 0))
            assert result.kind == "notWritten"
            assert result.detail.endswith("is empty")

    def test_above_the_log(self, admin, broker_a):
        result = admin.message.query_id(offset_msg_id(broker_a.address, 5_000))
        assert result.kind == "notWritten"

    def test_below_the_log(self, admin, broker_a):
        first = broker_a.store("orders")
        broker_a.store("orders")
        broker_a.expire("orders", 0, 1)
        result = admin.message.query_id(first.offset_msg_id)
        assert result.kind == "dataDeleted"
        assert "store inspect" in result.hint

    def test_an_unreachable_address_suggests_the_map(self, admin):
        result = admin.message.query_id(offset_msg_id("10.9.9.9:10911", 0))
        assert result.kind == "unreachable"
        assert "--address-map 10.9.9.9:10911=HOST:PORT" in result.hint

    def test_no_permission_is_a_refusal(self, admin, broker_a):
        stored = broker_a.store("orders")
        broker_a.refuse(
            RequestCode.VIEW_MESSAGE_BY_ID, ResponseCode.NO_PERMISSION, "User:x is not authorized"
        )
        result = admin.message.query_id(stored.offset_msg_id)
        assert (result.kind, result.errors[0].kind) == ("notPermitted", "notPermitted")

    def test_a_topic_other_than_requested_is_reported(self, admin, broker_a):
        stored = broker_a.store("orders")
        broker_a.store("bills")
        result = admin.message.query_id(stored.offset_msg_id, topic="bills")
        assert result.kind == "notFound"
        assert "is of topic orders, not bills" in result.detail

    def test_a_uniq_key_needs_its_topic(self, admin, broker_a):
        broker_a.store("orders", uniq=UNIQ)
        result = admin.message.query_id(UNIQ)
        assert result.kind == "badId"
        assert "--topic" in result.hint
        assert admin.message.query_id(UNIQ, topic="orders").kind == "found"

    def test_rubbish_is_a_bad_id(self, admin, cluster):
        assert admin.message.query_id("hello").kind == "badId"
        assert not cluster.calls

    def test_any_text_can_be_a_uniq_key_of_a_topic(self, admin, broker_a):
        broker_a.store("orders", uniq="my-own-id")
        assert admin.message.query_id("my-own-id", topic="orders").kind == "found"
        # an invalid id that is not found is an error, as it is without the topic
        assert admin.message.query_id("your-own-id", topic="orders").kind == "badId"
        assert admin.message.query_id("your-own-id").kind == "badId"

    def test_a_peer_that_sends_garbage_does_not_crash_the_broker(self, admin, broker_a):
        stored = broker_a.store("orders")
        broker_a.on_33 = lambda header, command: b"\0\1\2"
        assert admin.message.query_id(stored.offset_msg_id).kind == "notFound"


class TestOffset:
    def test_the_message_at_a_place(self, admin, broker_a):
        broker_a.store("orders", 1, body=b"0")
        broker_a.store("orders", 1, body=b"1")
        result = admin.message.query_offset("orders", 1, 1, body=TEXT)
        assert [item.body for item in result.items] == ["1"]

    def test_count_reads_on(self, admin, broker_a):
        for _ in range(70):
            broker_a.store("orders")
        result = admin.message.query_offset("orders", 0, 20, count=45)
        assert [item.queue_offset for item in result.items] == list(range(20, 65))
        assert len(admin.message.query_offset("orders", 0, 60, count=45).items) == 10

    def test_above_the_end(self, admin, broker_a):
        broker_a.store("orders")
        for offset in (1, 9):
            result = admin.message.query_offset("orders", 0, offset)
            assert result.kind == "notWritten"
            assert "keeps queue offsets 0 to 0" in result.detail

    def test_an_empty_queue(self, admin, broker_a):
        broker_a.store("orders")
        assert "is empty" in admin.message.query_offset("orders", 3, 0).detail

    def test_below_the_beginning(self, admin, broker_a):
        for _ in range(3):
            broker_a.store("orders")
        broker_a.expire("orders", 0, 2)
        result = admin.message.query_offset("orders", 0, 0)
        assert result.kind == "dataDeleted"
        assert "keeps queue offsets 2 to 2" in result.detail

    def test_in_range_but_gone_from_the_log(self, admin, broker_a):
        stored = broker_a.store("orders")
        del broker_a.log[stored.physical_offset]
        result = admin.message.query_offset("orders", 0, 0)
        assert result.kind == "dataDeleted"
        assert "no longer in the CommitLog (MESSAGE_WAS_REMOVING)" in result.detail

    def test_several_brokers_ask_for_one(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders")
        with pytest.raises(ClientError, match="2 brokers have a queue 0"):
            admin.message.query_offset("orders", 0, 0)
        assert admin.message.query_offset("orders", 0, 0, broker="broker-b").kind == "found"

    def test_unknown_places_are_named(self, admin, broker_a):
        broker_a.store("orders")
        with pytest.raises(ClientError, match="has no queue 9"):
            admin.message.query_offset("orders", 9, 0)
        with pytest.raises(ClientError, match="broker nope has no topic"):
            admin.message.query_offset("orders", 0, 0, broker="nope")
        assert admin.message.query_offset("nope", 0, 0).kind == "noSuchTopic"

    def test_a_dead_broker(self, admin, broker_a):
        broker_a.store("orders")
        broker_a.down = True
        assert admin.message.query_offset("orders", 0, 0).kind == "unreachable"


class TestTime:
    def test_merged_by_store_time_and_half_open(self, admin, cluster, broker_a, broker_b):
        times = []
        for number in range(6):
            broker = (broker_a, broker_b)[number % 2]
            times.append(broker.store("orders", number % 3, body=b"%d" % number).store_timestamp)
            cluster.clock.advance(100)
        result = admin.message.query_time("orders", times[1], times[4], body=TEXT)
        assert [item.body for item in result.items] == ["1", "2", "3"]
        everything = admin.message.query_time("orders", None, None)
        assert len(everything.items) == 6

    def test_a_truncation_is_reported(self, admin, broker_a):
        for _ in range(5):
            broker_a.store("orders")
        result = admin.message.query_time("orders", None, None, max_items=3)
        assert (len(result.items), result.truncated) == (3, True)

    def test_tags(self, admin, broker_a):
        broker_a.store("orders", tags="A")
        broker_a.store("orders", tags="B")
        result = admin.message.query_time("orders", None, None, tags="B || C")
        assert [item.tags for item in result.items] == ["B"]

    def test_nothing_in_the_window(self, admin, cluster, broker_a):
        broker_a.store("orders")
        result = admin.message.query_time("orders", 1, 2)
        assert result.kind == "notFound"
        assert "no message was stored in the window" in result.detail

    def test_a_window_before_the_oldest(self, admin, cluster, broker_a):
        broker_a.store("orders")
        cluster.clock.advance(5_000)
        broker_a.store("orders")
        broker_a.expire("orders", 0, 1)
        result = admin.message.query_time("orders", 1, 2)
        assert result.kind == "dataDeleted"

    def test_empty_queues(self, admin, broker_a):
        broker_a.store("orders")
        assert admin.message.query_time("orders", 1, 2, queue_id=2).detail == (
            "the queues are empty"
        )

    def test_a_failing_broker_is_listed_with_the_result(self, admin, broker_a, broker_b):
        broker_a.store("orders")
        broker_b.store("orders")
        broker_b.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION, "no reading")
        result = admin.message.query_time("orders", None, None)
        assert (result.kind, len(result.items)) == ("found", 1)
        assert result.errors[0].response_code == 16


class TestNarrowedKey:
    @pytest.fixture
    def spread(self, broker_a, broker_b):
        for broker in (broker_a, broker_b):
            for queue_id in range(2):
                for tags in ("x", "y"):
                    broker.store("orders", queue_id, keys="42", tags=tags)

    @pytest.mark.parametrize("scan", [False, True])
    @pytest.mark.parametrize(
        ("narrow", "count"),
        [
            ({}, 8),
            ({"queue_id": 1}, 4),
            ({"broker": "broker-b"}, 4),
            ({"tags": "x"}, 4),
            ({"queue_id": 0, "broker": "broker-a", "tags": "x"}, 1),
            ({"tags": "z"}, 0),
        ],
    )
    def test_only_requested_rows_are_returned(
        self, admin, spread, broker_a, broker_b, narrow, count, scan
    ):
        if scan:
            for broker in (broker_a, broker_b):
                broker.unindexed.update(broker.log)
        result = admin.message.query_key("orders", "42", scan=scan, **narrow)
        assert len(result.items) == count
        for item in result.items:
            assert item.queue_id == narrow.get("queue_id", item.queue_id)
            assert item.broker_name == narrow.get("broker", item.broker_name)
            assert item.tags == narrow.get("tags", item.tags)

    def test_other_messages_do_not_use_up_the_limit(self, admin, cluster, broker_a):
        wanted = broker_a.store("orders", 1, keys="42").offset_msg_id
        for _ in range(100):
            cluster.clock.advance(1_000)
            broker_a.store("orders", 0, keys="42")
        result = admin.message.query_key("orders", "42", queue_id=1, max_items=1)
        assert [item.offset_msg_id for item in result.items] == [wanted]

    def test_a_queue_or_broker_that_is_not_there_is_an_error(self, admin, spread):
        with pytest.raises(ClientError, match="no queue 9"):
            admin.message.query_key("orders", "42", queue_id=9)
        with pytest.raises(ClientError, match="broker nosuch"):
            admin.message.query_key("orders", "42", broker="nosuch")


class TestTail:
    def test_the_last_ones_over_all_queues(self, admin, cluster, broker_a):
        for number in range(9):
            broker_a.store("orders", number % 4, body=b"%d" % number)
            cluster.clock.advance(1)
        records = admin.message.tail("orders", last=3, follow=False, body=TEXT)
        assert [record.body for record in records] == ["6", "7", "8"]

    def test_following_yields_arriving_messages(self, admin, broker_a):
        broker_a.store("orders", body=b"old")
        stream = admin.message.tail("orders", last=1, body=TEXT)
        assert next(stream).body == "old"
        broker_a.store("orders", 1, body=b"new")
        broker_a.store("orders", 2, body=b"newer")
        assert [next(stream).body, next(stream).body] == ["new", "newer"]

    def test_a_single_queue_that_fails_ends_with_its_error(self, admin, broker_a):
        broker_a.store("orders", body=b"old")
        stream = admin.message.tail("orders", last=1, queue_id=0)
        next(stream)
        broker_a.down = True
        with pytest.raises(ConnectError):
            next(stream)

    def test_an_unknown_topic(self, admin):
        with pytest.raises(ClientError, match="no route"):
            next(admin.message.tail("orders"))
