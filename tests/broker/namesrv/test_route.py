"""The tables: registration, expiry, unregistration, routes, lists — pure, with a manual clock."""

import random

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.namesrv.brokers import MinBrokerIdChange, RegisterResult
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.route import RouteInfoManager
from broker.remoting.protocol.body.namesrv.route import QueueData, TopicQueueMappingInfo
from broker.remoting.protocol.body.version import DataVersion

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def perms(routes: RouteInfoManager, topic: str) -> dict[str, int]:
    return {name: queues.perm for name, queues in routes.topics.get(topic, {}).items()}


# ---- registration


def test_a_registered_topic_has_a_route(routes, make_registration) -> None:
    assert routes.register(make_registration("T", "U"), "channel") == RegisterResult()
    route = routes.route("T")
    assert route.queue_datas == [
        QueueData(broker_name="a", read_queue_nums=4, write_queue_nums=4, perm=6)
    ]
    (broker,) = route.broker_datas
    assert (broker.cluster, broker.broker_name) == ("C", "a")
    assert broker.broker_addrs == {0: MASTER}
    assert route.filter_server_table == {}
    assert routes.route("V") is None
    assert routes.all_topics() == ["T", "U"]


def test_a_single_topic_of_an_unregistered_broker_is_refused(routes, make_registration) -> None:
    assert routes.register(make_registration("T"), "channel") is None
    assert routes.groups == routes.clusters == routes.live == routes.topics == {}
    routes.register(make_registration("T", "U"), "channel")
    assert routes.register(make_registration("V", counter=1), "channel") is not None
    assert routes.all_topics() == ["T", "U", "V"]


def test_a_broker_without_topics_may_register(routes, make_registration) -> None:
    assert routes.register(make_registration(), "channel") is not None
    assert routes.cluster_info().cluster_addr_table == {"C": ["a"]}


def test_topics_are_updated_only_when_the_data_version_changed(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "channel")
    wider = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)
    routes.register(make_registration(wider, "U"), "channel")
    assert routes.route("T").queue_datas[0].read_queue_nums == 4
    routes.register(make_registration(wider, "U", counter=1), "channel")
    assert routes.route("T").queue_datas[0].read_queue_nums == 8


def test_a_new_topic_is_added_even_with_an_equal_data_version(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "channel")
    routes.register(make_registration("T", "U", "V"), "channel")
    assert routes.route("V") is not None


def test_topics_missing_from_a_registration_are_kept_unless_configured_otherwise(
    clock, make_registration
) -> None:
    for delete, expected in ((False, ["T", "U", "V"]), (True, ["T", "V"])):
        routes = RouteInfoManager(
            clock, NamesrvConfig(delete_topic_with_broker_registration=delete)
        )
        routes.register(make_registration("T", "U"), "channel")
        routes.register(make_registration("T", "V", counter=1), "channel")
        assert routes.all_topics() == expected


def test_only_the_master_registers_topics(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "m")
    slave = make_registration("T", "X", address=SLAVE, broker_id=1, ha_address="h")
    assert routes.register(slave, "s") == RegisterResult(MASTER, "10.0.0.1:10912")
    assert routes.all_topics() == ["T", "U"]
    assert routes.members("a") == {0: MASTER, 1: SLAVE}


def test_the_lowest_slave_registers_the_topics_of_a_group_without_master(
    routes, make_registration
) -> None:
    old = make_registration("T", "U", address=SLAVE, broker_id=1, enable_acting_master=None)
    routes.register(old, "s")
    assert routes.all_topics() == []
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=1, counter=1), "s")
    assert perms(routes, "T") == {"a": 6}
    acting = make_registration(
        "T", "U", address=SLAVE, broker_id=1, counter=2, enable_acting_master=True
    )
    routes.register(acting, "s")
    assert perms(routes, "T") == {"a": 4}


def test_an_address_registered_under_a_new_id_loses_the_old_one(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "m")
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=1), "s")
    routes.unregister("C", "a", MASTER)
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=0), "s")
    assert routes.members("a") == {0: SLAVE}


@pytest.mark.parametrize("former", [{"broker_name": "old"}, {"cluster": "OLD"}])
def test_an_address_leaves_its_former_broker_name_and_cluster(
    routes, make_registration, former
) -> None:
    routes.register(make_registration("T", "U", **former), "before")
    routes.register(make_registration("T", "V"), "after")
    assert routes.channel_closed("before") == []
    info = routes.cluster_info()
    assert info.cluster_addr_table == {"C": ["a"]}
    assert {name: one.cluster for name, one in info.broker_addr_table.items()} == {"a": "C"}
    assert routes.route("U") is None
    assert [one.broker_name for one in routes.route("T").queue_datas] == ["a"]
    assert routes.channel_closed("after") == [MASTER]
    assert (routes.groups, routes.clusters, routes.topics, routes.live) == ({}, {}, {}, {})


def test_master_and_slave_move_to_another_cluster(routes, make_registration) -> None:
    routes.register(make_registration("T", "U", cluster="OLD"), "m")
    routes.register(make_registration("T", "U", cluster="OLD", address=SLAVE, broker_id=1), "s")
    routes.register(make_registration("T", "U"), "m2")
    assert routes.members("a") == {0: MASTER, 1: SLAVE}
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=1), "s2")
    assert routes.cluster_info().cluster_addr_table == {"C": ["a"]}
    assert routes.channel_closed("m") == routes.channel_closed("s") == []
    assert routes.members("a") == {0: MASTER, 1: SLAVE}


def test_a_second_holder_of_an_id_with_an_older_state_is_ignored(routes, make_registration) -> None:
    routes.register(make_registration("T", "U", state=5), "m")
    older = make_registration("T", "X", state=4, address="10.0.0.9:10911")
    assert routes.register(older, "o") == RegisterResult()
    assert routes.members("a") == {0: MASTER}
    assert ("C", "10.0.0.9:10911") not in routes.live
    newer = make_registration("T", "X", state=6, address="10.0.0.9:10911")
    routes.register(newer, "n")
    assert routes.members("a") == {0: "10.0.0.9:10911"}


def test_two_clusters_and_brokers_are_listed_by_name(routes, make_registration) -> None:
    routes.register(make_registration("T", "U", broker_name="b", address="10.0.0.3:10911"), "1")
    routes.register(make_registration("T", "V"), "2")
    routes.register(
        make_registration("W", "X", broker_name="z", cluster="D", address="10.0.0.4:1"), "3"
    )
    info = routes.cluster_info()
    assert info.cluster_addr_table == {"C": ["a", "b"], "D": ["z"]}
    assert list(info.broker_addr_table) == ["a", "b", "z"]
    assert [queues.broker_name for queues in routes.route("T").queue_datas] == ["a", "b"]
    assert routes.topics_of_cluster("C") == ["T", "U", "V"]
    assert routes.topics_of_cluster("D") == ["W", "X"]
    assert routes.topics_of_cluster("E") == []
    assert routes.system_topics() == (["C", "D", "a", "b", "z"], MASTER)


def test_an_empty_name_server_has_no_system_topics(routes) -> None:
    assert routes.system_topics() == ([], None)


def test_routes_contain_zone_acting_master_and_filter_servers(routes, make_registration) -> None:
    routes.register(
        make_registration("T", "U", zone="z1", enable_acting_master=True, filter_servers=["f:1"]),
        "m",
    )
    route = routes.route("T")
    assert route.broker_datas[0].zone_name == "z1"
    assert route.broker_datas[0].enable_acting_master is True
    assert route.filter_server_table == {MASTER: ["f:1"]}
    routes.register(make_registration("T", "U", filter_servers=[]), "m")
    assert routes.route("T").filter_server_table == {}


def test_a_route_in_zone_mode_has_the_brokers_of_the_zone_and_those_without_master(
    routes, make_registration
) -> None:
    for number, zone in enumerate(("z1", "Z1", "z2", None)):
        address = f"10.0.1.{number}:10911"
        name = f"b{number}"
        routes.register(
            make_registration("T", "U", broker_name=name, zone=zone, address=address), number
        )
        if zone == "z2":
            routes.register(
                make_registration(
                    *("T", "U"), broker_name=name, zone=zone, address=SLAVE, broker_id=1
                ),
                "slave",
            )
    route = routes.route("T", "z1")
    assert [one.broker_name for one in route.broker_datas] == ["b0", "b1"]
    assert [one.broker_name for one in route.queue_datas] == ["b0", "b1"]
    routes.channel_closed(2)
    assert [one.broker_name for one in routes.route("T", "z1").broker_datas] == ["b0", "b1", "b2"]
    assert [one.broker_name for one in routes.route("T", "z3").broker_datas] == ["b2"]


def test_queue_mappings_are_kept_until_the_broker_is_removed(routes, make_registration) -> None:
    mapping = TopicQueueMappingInfo(topic="T", bname="a", total_queues=2)
    routes.register(make_registration("T", "U", mappings={"T": mapping}), "m")
    assert routes.route("T").topic_queue_mapping_by_broker == {"a": mapping}
    assert routes.route("U").topic_queue_mapping_by_broker is None
    routes.unregister("C", "a", MASTER)
    assert routes.mappings == {}


# ---- data versions


def test_data_versions_are_equal_only_in_all_parts(routes, make_registration) -> None:
    assert routes.is_changed("C", MASTER, DataVersion())
    assert routes.data_version_of("C", MASTER) is None
    routes.register(make_registration("T", "U", counter=3, state=1), "m")
    same = DataVersion(counter=3, state_version=1, timestamp=1)
    assert not routes.is_changed("C", MASTER, same)
    assert routes.data_version_of("C", MASTER) == same
    for other in (
        DataVersion(counter=4, state_version=1, timestamp=1),
        DataVersion(counter=3, state_version=2, timestamp=1),
        DataVersion(counter=3, state_version=1, timestamp=2),
    ):
        assert routes.is_changed("C", MASTER, other)
    assert routes.is_changed("D", MASTER, same)


# ---- expiry and unregistration


def test_a_broker_without_heartbeat_is_removed_after_120_seconds(
    routes, make_registration, clock: ManualClock
) -> None:
    routes.register(make_registration("T", "U"), "channel")
    clock.advance(120_000)
    assert routes.expire() == []
    assert routes.route("T") is not None
    clock.advance(1)
    assert routes.expire() == ["channel"]
    assert routes.route("T") is None
    assert routes.groups == routes.clusters == routes.live == routes.topics == {}
    assert routes.expire() == []


def test_a_broker_may_register_a_shorter_timeout(
    routes, make_registration, clock: ManualClock
) -> None:
    routes.register(make_registration("T", "U", timeout_ms=10_000), "channel")
    clock.advance(10_001)
    assert routes.expire() == ["channel"]


def test_heartbeats_and_registrations_refresh_the_liveness(
    routes, make_registration, clock: ManualClock
) -> None:
    routes.register(make_registration("T", "U"), "channel")
    clock.advance(100_000)
    routes.heard_from("C", MASTER)
    clock.advance(100_000)
    assert routes.expire() == []
    routes.register(make_registration("T", "U"), "channel")
    clock.advance(120_000)
    assert routes.expire() == []
    routes.heard_from("C", "10.0.0.9:1")
    assert len(routes.live) == 1


def test_a_closed_connection_removes_its_brokers_at_once(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "one")
    routes.register(make_registration("T", "V", broker_name="b", address="10.0.0.3:1"), "two")
    assert routes.channel_closed("one") == [MASTER]
    assert routes.channel_closed("one") == []
    assert [queues.broker_name for queues in routes.route("T").queue_datas] == ["b"]
    assert routes.all_topics() == ["T", "V"]


def test_closing_a_replaced_connection_does_not_remove_the_broker(
    routes, make_registration
) -> None:
    routes.register(make_registration("T", "U"), "old")
    routes.register(make_registration("T", "U"), "new")
    assert routes.channel_closed("old") == []
    assert routes.route("T") is not None


def test_unregistering_removes_one_address_and_the_last_one_removes_the_route(
    routes, make_registration
) -> None:
    routes.register(make_registration("T", "U"), "m")
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=1), "s")
    routes.unregister("C", "a", MASTER)
    assert routes.members("a") == {1: SLAVE}
    assert routes.route("T").broker_datas[0].broker_addrs == {1: SLAVE}
    assert perms(routes, "T") == {"a": 6}
    routes.unregister("C", "a", SLAVE)
    assert routes.route("T") is None
    routes.unregister("C", "a", SLAVE)
    routes.unregister("C", "unknown", "x")


def test_without_its_master_an_acting_group_becomes_read_only(routes, make_registration) -> None:
    routes.register(make_registration("T", "U", enable_acting_master=True), "m")
    routes.register(
        make_registration("T", "U", address=SLAVE, broker_id=1, enable_acting_master=True), "s"
    )
    routes.unregister("C", "a", MASTER)
    assert perms(routes, "T") == {"a": 4}


# ---- acting master


def acting(clock: ManualClock, make_registration, **config) -> RouteInfoManager:
    routes = RouteInfoManager(clock, NamesrvConfig(support_acting_master=True, **config))
    sync = "rmq_sys_SYNC_BROKER_MEMBER_a"
    routes.register(make_registration("T", sync, enable_acting_master=True), "m")
    for number in (2, 1):
        slave = make_registration(
            "T",
            sync,
            address=f"10.0.0.{number + 1}:10911",
            broker_id=number,
            enable_acting_master=True,
        )
        routes.register(slave, f"s{number}")
    return routes


def test_the_lowest_slave_is_presented_as_master_of_a_group_without_one(
    clock, make_registration
) -> None:
    routes = acting(clock, make_registration)
    with_master = routes.route("T").broker_datas[0].broker_addrs
    assert with_master == {0: MASTER, 1: SLAVE, 2: "10.0.0.3:10911"}
    routes.unregister("C", "a", MASTER)
    assert routes.route("T").broker_datas[0].broker_addrs == {0: SLAVE, 2: "10.0.0.3:10911"}
    assert routes.members("a") == {1: SLAVE, 2: "10.0.0.3:10911"}
    sync = routes.route("rmq_sys_SYNC_BROKER_MEMBER_a")
    assert sync.broker_datas[0].broker_addrs == {1: SLAVE, 2: "10.0.0.3:10911"}


def test_no_slave_is_presented_as_master_while_queues_are_writable(
    clock, make_registration
) -> None:
    routes = acting(clock, make_registration)
    routes.unregister("C", "a", MASTER)
    routes.add_write_perm("a")
    assert 0 not in routes.route("T").broker_datas[0].broker_addrs


def test_changes_of_the_lowest_id_are_notified_to_the_group(clock, make_registration) -> None:
    notified: list[MinBrokerIdChange] = []
    config = NamesrvConfig(notify_min_broker_id_changed=True)
    routes = RouteInfoManager(clock, config, notified.append)
    common = {"enable_acting_master": True}
    routes.register(make_registration("T", "U", address=SLAVE, broker_id=1, **common), "s")
    routes.register(make_registration("T", "U", **common), "m")
    assert [(c.min_broker_id, c.min_address, c.offline_address, c.notify) for c in notified] == [
        (0, MASTER, None, [SLAVE])
    ]
    assert notified[0].ha_address == "10.0.0.1:10912"
    routes.unregister("C", "a", MASTER)
    assert (notified[1].min_broker_id, notified[1].offline_address, notified[1].notify) == (
        1,
        MASTER,
        [SLAVE],
    )
    routes.config = NamesrvConfig()
    routes.register(make_registration("T", "U", **common), "m")
    assert len(notified) == 2


# ---- permissions, topics


def test_wiping_and_adding_write_permission(routes, make_registration) -> None:
    inherit = TopicConfig(topic_name="TBW102", perm=7)
    routes.register(make_registration("T", inherit), "m")
    routes.register(make_registration("T", "V", broker_name="b", address="10.0.0.3:1"), "b")
    assert routes.wipe_write_perm("a") == 2
    assert (perms(routes, "T"), perms(routes, "TBW102")) == ({"a": 4, "b": 6}, {"a": 5})
    assert routes.add_write_perm("a") == 2
    assert (perms(routes, "T"), perms(routes, "TBW102")) == ({"a": 6, "b": 6}, {"a": 6})
    assert routes.wipe_write_perm("unknown") == 0
    routes.wipe_write_perm("a")
    routes.register(make_registration("T", inherit), "m")
    assert perms(routes, "T")["a"] == 4
    routes.register(make_registration("T", inherit, counter=1), "m")
    assert (perms(routes, "T")["a"], perms(routes, "TBW102")["a"]) == (6, 7)


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "1")
    routes.register(
        make_registration("T", "V", broker_name="z", cluster="D", address="10.0.0.4:1"), "2"
    )
    assert routes.delete_topic("T", "nowhere") == 0
    assert routes.delete_topic("T", "D") == 1
    assert list(perms(routes, "T")) == ["a"]
    assert routes.delete_topic("T") == 1
    assert routes.route("T") is None
    assert routes.delete_topic("T") == 0


def test_a_topic_is_registered_on_known_brokers_only(routes, make_registration) -> None:
    routes.register(make_registration("T", "U"), "1")
    queues = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)
    unregistered = QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=6)
    assert not routes.register_topic("N", [queues, unregistered])
    assert not routes.register_topic("N", [])
    assert routes.route("N") is None
    assert routes.register_topic("N", [queues])
    assert routes.route("N").queue_datas == [queues]


@pytest.mark.parametrize(
    ("unit", "unit_sub", "expected"),
    [
        (True, None, ["T1", "T3"]),
        (None, True, ["T2", "T3"]),
        (False, True, ["T2"]),
    ],
)
def test_unit_lists_follow_the_topic_flags(
    routes, make_registration, unit, unit_sub, expected
) -> None:
    configs = [TopicConfig(topic_name=f"T{flag}", topic_sys_flag=flag) for flag in range(4)]
    routes.register(make_registration(*configs), "m")
    assert routes.unit_topics(unit=unit, unit_sub=unit_sub) == expected


# ---- against a model


def test_the_tables_and_a_model_agree(make_registration, rng: random.Random) -> None:
    clock = ManualClock()
    routes = RouteInfoManager(clock, NamesrvConfig())
    model: dict[str, tuple[set[str], int]] = {}
    counter = 0
    for _ in range(400):
        name = rng.choice("abcd")
        address = f"10.0.0.{ord(name)}:10911"
        action = rng.randrange(6)
        if action <= 2:
            counter += 1
            topics = set(rng.sample(["T1", "T2", "T3", "T4", "T5"], rng.randrange(2, 6)))
            known = model.get(name, (set(), 0))[0]
            routes.register(
                make_registration(
                    *sorted(topics), counter=counter, broker_name=name, address=address
                ),
                name,
            )
            model[name] = (known | topics, clock.now_ms())
        elif action == 3:
            routes.unregister("C", name, address)
            model.pop(name, None)
        elif action == 4:
            routes.channel_closed(name)
            model.pop(name, None)
        else:
            clock.advance(rng.randrange(90_000))
            routes.expire()
            now = clock.now_ms()
            model = {n: (t, at) for n, (t, at) in model.items() if now - at <= 120_000}
        expected: dict[str, set[str]] = {}
        for broker_name, (topics, _) in model.items():
            for topic in topics:
                expected.setdefault(topic, set()).add(broker_name)
        assert {t: set(table) for t, table in routes.topics.items()} == expected
        assert set(routes.groups) == set(model)
        assert routes.clusters == ({"C": set(model)} if model else {})
        assert {address for _, address in routes.live} == {
            f"10.0.0.{ord(broker_name)}:10911" for broker_name in model
        }
