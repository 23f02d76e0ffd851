"""Topics: plans per broker, patches, partial failures, routes and statuses."""

import pytest

from broker.common.topic import TopicConfig
from broker.errors import BrokerError, ClientError, ConfigError, RequestTimeoutError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.topic import merged_attributes

VERSION_4_9_8 = 409


def config(topic="orders", **fields):
    return TopicConfig(topic_name=topic, **{"read_queue_nums": 4, "write_queue_nums": 4, **fields})


class TestList:
    def test_one_record_per_topic_and_broker(self, admin, broker_a, broker_b):
        broker_a.topics["orders"] = config()
        broker_b.topics["orders"] = config(perm=4)
        broker_b.topics["bills"] = config("bills")
        rows = [(r.topic, r.broker_name, r.perm) for r in admin.topic.list().items]
        assert rows == [
            ("bills", "broker-b", 6),
            ("orders", "broker-a", 6),
            ("orders", "broker-b", 4),
        ]

    def test_two_requests_are_enough(self, admin, cluster):
        admin.topic.list()
        assert [code for _, code in cluster.calls] == [106, 21, 21]

    def test_system_topics_can_be_left_out(self, admin, broker_a):
        own = ("TBW102", "broker-a", "DefaultCluster", "rmq_sys_x", "%RETRY%g", "%DLQ%g")
        for name in ("orders", *own):
            broker_a.topics[name] = config(name)
        names = {record.topic for record in admin.topic.list(include_system=False).items}
        assert names == {"orders"}

    def test_a_dead_broker_leaves_names_and_an_error(self, admin, broker_a, broker_b):
        broker_a.topics["orders"] = config()
        broker_b.topics["bills"] = config("bills")
        broker_b.down = True
        listing = admin.topic.list()
        assert [(r.topic, r.broker_name) for r in listing.items] == [
            ("bills", None),
            ("orders", "broker-a"),
        ]
        (error,) = listing.errors
        assert (error.kind, error.address, error.target) == (
            "unreachable",
            broker_b.address,
            "broker-b",
        )

    def test_known_results_are_shown_if_no_time_is_left_for_names(
        self, admin, broker_a, broker_b, monkeypatch
    ):
        broker_a.topics["orders"] = config()
        broker_b.down = True

        ask = admin.ask_namesrv

        def late(code, **fields):
            if code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                raise RequestTimeoutError("no answer")
            return ask(code, **fields)

        monkeypatch.setattr(admin, "ask_namesrv", late)
        listing = admin.topic.list()
        assert {record.broker_name for record in listing.items} == {"broker-a"}
        assert [error.kind for error in listing.errors] == ["unreachable"]

    def test_a_slave_is_queried_if_the_master_is_missing(self, admin, cluster):
        slave = cluster.add("broker-c", broker_id=2)
        slave.topics["only-there"] = config("only-there")
        assert "only-there" in {record.topic for record in admin.topic.list().items}

    def test_an_unknown_cluster_is_named_with_the_known_ones(self, admin):
        with pytest.raises(ClientError, match=r"no cluster is named x \(registered: Default"):
            admin.topic.list(cluster="x")


class TestCreate:
    def test_every_master_of_the_only_cluster_gets_it(self, admin, cluster):
        slave = cluster.add("broker-a", broker_id=1)
        outcome = admin.apply(admin.topic.plan_create("orders", queues=3))
        assert outcome.ok
        assert [item.status for item in outcome.items] == ["done", "done"]
        assert cluster.brokers[0].topics["orders"].read_queue_nums == 3
        assert "orders" not in slave.topics

    def test_a_plan_changes_nothing(self, admin, cluster):
        plan = admin.topic.plan_create("orders")
        assert not plan.empty
        assert plan.changes[0].before is None
        assert plan.changes[0].after["writeQueueNums"] == 8
        assert all("orders" not in broker.topics for broker in cluster.brokers)
        assert not cluster.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)

    def test_an_existing_topic_is_refused_by_name_of_the_broker(self, admin, broker_b):
        broker_b.topics["orders"] = config()
        with pytest.raises(ClientError, match="exists already on broker-b"):
            admin.topic.plan_create("orders")

    def test_if_not_exists_leaves_an_existing_object_unchanged(self, admin, broker_a, broker_b):
        broker_b.topics["orders"] = config(read_queue_nums=1)
        plan = admin.topic.plan_create("orders", if_not_exists=True)
        (warning,) = plan.warnings
        assert warning == (
            "topic orders exists on broker-b and is left unchanged: "
            "readQueueNums is 1 instead of 8, writeQueueNums is 4 instead of 8"
        )
        outcome = admin.apply(plan)
        assert [item.status for item in outcome.items] == ["done", "unchanged"]
        assert broker_b.topics["orders"].read_queue_nums == 1
        assert broker_a.topics["orders"].read_queue_nums == 8

    def test_an_existing_object_that_is_as_asked_has_no_warning(self, admin, broker_b):
        broker_b.topics["orders"] = config()
        assert admin.topic.plan_create("orders", queues=4, if_not_exists=True).warnings == []

    def test_one_broker_by_name_or_address(self, admin, broker_a, broker_b):
        admin.apply(admin.topic.plan_create("t1", broker="broker-b"))
        admin.apply(admin.topic.plan_create("t2", broker=broker_b.address))
        assert {"t1", "t2"} <= set(broker_b.topics)
        assert not broker_a.topics

    def test_attributes_are_sent_signed(self, admin, broker_a):
        plan = admin.topic.plan_create("t", broker="broker-a", attributes=["message.type=FIFO"])
        assert plan.changes[0].request.ext_fields["attributes"] == "+message.type=FIFO"
        assert admin.apply(plan).ok
        assert broker_a.topics["t"].attributes == {"message.type": "FIFO"}

    def test_one_refusing_broker_does_not_hide_the_other(self, admin, broker_b):
        broker_b.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.NO_PERMISSION, "no")
        outcome = admin.apply(admin.topic.plan_create("orders"))
        assert [item.status for item in outcome.items] == ["done", "failed"]
        (error,) = outcome.errors
        assert (error.kind, error.request_code, error.response_code) == ("refused", 17, 16)
        assert not outcome.ok

    def test_a_broker_that_cannot_be_read_is_an_error_of_the_plan(self, admin, broker_b):
        broker_b.silent = True
        plan = admin.topic.plan_create("orders")
        assert [change.target for change in plan.changes] == ["broker-a"]
        assert [error.kind for error in plan.errors] == ["timeout"]
        assert not admin.apply(plan).ok

    def test_several_clusters_ask_for_one(self, admin, cluster):
        cluster.add("broker-z", cluster="Other")
        with pytest.raises(ClientError, match="2 clusters"):
            admin.topic.plan_create("orders")
        assert len(admin.topic.plan_create("orders", cluster="Other").changes) == 1

    @pytest.mark.parametrize(
        ("name", "reason"),
        [("a b", "illegal"), ("", "blank"), ("x" * 128, "longer"), ("TBW102", "itself")],
    )
    def test_bad_names_never_reach_a_broker(self, admin, cluster, name, reason):
        with pytest.raises(ClientError, match=reason):
            admin.topic.plan_create(name)
        assert not cluster.calls

    def test_bad_numbers_are_refused(self, admin):
        with pytest.raises(ClientError, match="at least one queue"):
            admin.topic.plan_create("t", queues=0)
        with pytest.raises(ClientError, match="not a permission: 9"):
            admin.topic.plan_create("t", perm=9)


class TestUpdate:
    def test_settings_that_are_not_named_keep_the_value_of_each_broker(
        self, admin, broker_a, broker_b
    ):
        broker_a.topics["orders"] = config(perm=4, topic_sys_flag=1)
        broker_b.topics["orders"] = config(read_queue_nums=9, order=True)
        assert admin.apply(admin.topic.plan_update("orders", write_queues=2)).ok
        a, b = broker_a.topics["orders"], broker_b.topics["orders"]
        assert (a.write_queue_nums, a.read_queue_nums, a.perm, a.topic_sys_flag) == (2, 4, 4, 1)
        assert (b.write_queue_nums, b.read_queue_nums, b.order) == (2, 9, True)

    def test_only_brokers_that_have_it_are_targets(self, admin, broker_a):
        broker_a.topics["orders"] = config()
        plan = admin.topic.plan_update("orders", queues=5)
        assert [change.target for change in plan.changes] == ["broker-a"]

    def test_nothing_to_do_sends_nothing(self, admin, cluster, broker_a):
        broker_a.topics["orders"] = config()
        plan = admin.topic.plan_perm("orders", 6)
        assert plan.empty
        assert admin.apply(plan).ok
        assert not cluster.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)

    def test_nothing_named_is_an_error(self, admin):
        with pytest.raises(ConfigError, match="nothing to change"):
            admin.topic.plan_update("orders")

    def test_an_unknown_topic_is_an_error_with_the_next_command(self, admin):
        with pytest.raises(ClientError) as caught:
            admin.topic.plan_update("orders", queues=1)
        assert "topic create" in caught.value.hint

    def test_fewer_read_queues_warn(self, admin, broker_a):
        broker_a.topics["orders"] = config()
        (warning,) = admin.topic.plan_update("orders", read_queues=1).warnings
        assert "queues 1 to 3" in warning

    def test_attributes_change_one_by_one(self, admin, broker_a):
        broker_a.topics["t"] = config("t", attributes={"a": "1", "b": "2"})
        assert admin.apply(admin.topic.plan_update("t", attributes=["-a", "+c=3"])).ok
        assert broker_a.topics["t"].attributes == {"b": "2", "c": "3"}

    def test_an_old_broker_is_read_from_its_table(self, admin, cluster, broker_a):
        broker_a.version = VERSION_4_9_8
        broker_a.topics["orders"] = config()
        assert admin.apply(admin.topic.plan_update("orders", queues=5)).ok
        assert broker_a.address in cluster.asked(RequestCode.GET_ALL_TOPIC_CONFIG)

    def test_a_broker_that_confirms_without_acting_is_detected(self, admin, broker_a):
        broker_a.topics["orders"] = config()
        broker_a.ignore_writes = True
        outcome = admin.apply(admin.topic.plan_update("orders", queues=5))
        (item,) = outcome.items
        assert item.status == "differs"
        assert "readQueueNums is 4 instead of 5" in item.error.message

    def test_a_state_that_moved_is_left_alone(self, admin, cluster, broker_a):
        broker_a.topics["orders"] = config()
        plan = admin.topic.plan_update("orders", queues=5)
        broker_a.topics["orders"] = config(perm=2)
        outcome = admin.apply(plan)
        assert outcome.items[0].status == "moved"
        assert not cluster.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)


class TestDelete:
    def test_brokers_first_then_every_name_server(self, admin, cluster, broker_a, broker_b):
        second = cluster.add_namesrv("127.0.0.1:9877")
        broker_a.topics["orders"] = broker_b.topics["orders"] = config()
        session = cluster.admin()
        plan = session.topic.plan_delete("orders")
        assert [change.step for change in plan.changes] == [0, 0, 1, 1]
        assert session.apply(plan).ok
        assert not broker_a.topics
        assert ("orders", "broker-a") in second.forgotten

    def test_a_broker_that_fails_keeps_the_route(self, admin, cluster, broker_a, broker_b):
        broker_a.topics["orders"] = broker_b.topics["orders"] = config()
        broker_b.refuse(RequestCode.DELETE_TOPIC_IN_BROKER, ResponseCode.SYSTEM_ERROR, "disk")
        outcome = admin.apply(admin.topic.plan_delete("orders"))
        assert [item.status for item in outcome.items] == ["done", "failed", "skipped"]
        assert not cluster.namesrvs[0].forgotten

    def test_a_silent_name_server_is_named(self, cluster, broker_a):
        second = cluster.add_namesrv("127.0.0.1:9877")
        broker_a.topics["orders"] = config()
        second.silent = True
        session = cluster.admin()
        plan = session.topic.plan_delete("orders")
        assert [error.address for error in plan.errors] == [second.address]
        outcome = session.apply(plan)
        assert [item.status for item in outcome.items] == ["done", "done"]
        assert not outcome.ok

    def test_the_plan_counts_lost_messages(self, admin, broker_a):
        for _ in range(3):
            broker_a.store("orders")
        (warning,) = admin.topic.plan_delete("orders").warnings
        assert warning.startswith("3 messages in 4 queues")

    def test_a_cluster_keeps_the_others(self, admin, cluster, broker_a):
        other = cluster.add("broker-z", cluster="Other")
        broker_a.topics["orders"] = other.topics["orders"] = config()
        plan = admin.topic.plan_delete("orders", cluster="Other")
        assert plan.changes[-1].after == {"brokers": ["broker-a"]}
        assert admin.apply(plan).ok
        assert "orders" in broker_a.topics

    def test_unknown_and_system_topics_are_refused(self, admin):
        with pytest.raises(ClientError, match="does not exist"):
            admin.topic.plan_delete("orders")
        with pytest.raises(ClientError, match="itself"):
            admin.topic.plan_delete("SCHEDULE_TOPIC_XXXX")


class TestShow:
    def test_route_names_brokers_and_queues(self, admin, broker_a, broker_b):
        broker_a.topics["orders"] = broker_b.topics["orders"] = config()
        route = admin.topic.route("orders")
        assert [broker.broker_name for broker in route.brokers] == ["broker-a", "broker-b"]
        assert route.brokers[0].broker_addrs == {"0": broker_a.address}
        assert [queue.read_queue_nums for queue in route.queues] == [4, 4]

    def test_no_route_is_a_refusal_with_a_hint(self, admin):
        with pytest.raises(BrokerError) as caught:
            admin.topic.route("orders")
        error = caught.value
        assert (error.code, error.request_code) == (17, 105)
        assert error.address == "127.0.0.1:9876"
        assert "topic list" in error.hint
        assert "GET_ROUTEINFO_BY_TOPIC (127.0.0.1:9876): TOPIC_NOT_EXIST (17)" in error.message

    def test_status_has_every_queue(self, admin, cluster, broker_a):
        broker_a.store("orders", 1)
        items = admin.topic.status("orders").items
        assert [(i.queue_id, i.max_offset, i.last_update_timestamp) for i in items] == [
            (0, 0, None),
            (1, 1, cluster.clock.now_ms()),
            (2, 0, None),
            (3, 0, None),
        ]

    def test_show_lists_brokers_and_errors(self, admin, broker_a, broker_b):
        broker_a.topics["orders"] = config()
        broker_b.refuse(RequestCode.GET_TOPIC_CONFIG, ResponseCode.SYSTEM_ERROR, "boom")
        listing = admin.topic.show("orders")
        assert [record.broker_name for record in listing.items] == ["broker-a"]
        assert [error.response_code for error in listing.errors] == [1]


def test_attribute_words() -> None:
    assert merged_attributes({"a": "1"}, ["+b=2=3", "c=4", "-a"]) == {"b": "2=3", "c": "4"}
    for word in ("+b", "=x", "b"):
        with pytest.raises(ClientError, match="not an attribute change"):
            merged_attributes({}, [word])
