"""The tables: registration, expiry, departure, routes, lists — pure, with a manual clock."""

import random

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.namesrv.brokers import MinBrokerIdChange, RegisterResult
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.route import RouteInfoManager
from broker.remoting.protocol.body.route import QueueData, TopicQueueMappingInfo
from broker.remoting.protocol.body.version import DataVersion

MASTER = "10.0.0.1:10911"
SLAVE = "10.0.0.2:10911"


def perms(routes: RouteInfoManager, topic: str) -> dict[str, int]:
    return {name: queues.perm for name, queues in routes.topics.get(topic, {}).items()}


# ---- registration


def test_a_registered_topic_has_a_route(routes, said) -> None:
    assert routes.register(said("T", "U"), "channel") == RegisterResult()
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


def test_a_lone_topic_of_an_unregistered_broker_is_refused(routes, said) -> None:
    assert routes.register(said("T"), "channel") is None
    assert routes.groups == routes.clusters == routes.live == routes.topics == {}
    routes.register(said("T", "U"), "channel")
    assert routes.register(said("V", counter=1), "channel") is not None
    assert routes.all_topics() == ["T", "U", "V"]


def test_a_broker_without_topics_may_register(routes, said) -> None:
    assert routes.register(said(), "channel") is not None
    assert routes.cluster_info().cluster_addr_table == {"C": ["a"]}


def test_topics_are_taken_when_the_data_version_changed(routes, said) -> None:
    routes.register(said("T", "U"), "channel")
    wider = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=8)
    routes.register(said(wider, "U"), "channel")
    assert routes.route("T").queue_datas[0].read_queue_nums == 4
    routes.register(said(wider, "U", counter=1), "channel")
    assert routes.route("T").queue_datas[0].read_queue_nums == 8


def test_a_new_topic_is_taken_even_with_an_equal_data_version(routes, said) -> None:
    routes.register(said("T", "U"), "channel")
    routes.register(said("T", "U", "V"), "channel")
    assert routes.route("V") is not None


def test_topics_left_out_stay_unless_configured_otherwise(clock, said) -> None:
    for delete, expected in ((False, ["T", "U", "V"]), (True, ["T", "V"])):
        routes = RouteInfoManager(
            clock, NamesrvConfig(delete_topic_with_broker_registration=delete)
        )
        routes.register(said("T", "U"), "channel")
        routes.register(said("T", "V", counter=1), "channel")
        assert routes.all_topics() == expected


def test_only_the_master_brings_topics(routes, said) -> None:
    routes.register(said("T", "U"), "m")
    slave = said("T", "X", address=SLAVE, broker_id=1, ha_address="h")
    assert routes.register(slave, "s") == RegisterResult(MASTER, "10.0.0.1:10912")
    assert routes.all_topics() == ["T", "U"]
    assert routes.members("a") == {0: MASTER, 1: SLAVE}


def test_the_lowest_slave_speaks_for_a_group_without_master(routes, said) -> None:
    old = said("T", "U", address=SLAVE, broker_id=1, enable_acting_master=None)
    routes.register(old, "s")
    assert routes.all_topics() == []
    routes.register(said("T", "U", address=SLAVE, broker_id=1, counter=1), "s")
    assert perms(routes, "T") == {"a": 6}
    acting = said("T", "U", address=SLAVE, broker_id=1, counter=2, enable_acting_master=True)
    routes.register(acting, "s")
    assert perms(routes, "T") == {"a": 4}


def test_an_address_under_a_new_id_leaves_the_old_one(routes, said) -> None:
    routes.register(said("T", "U"), "m")
    routes.register(said("T", "U", address=SLAVE, broker_id=1), "s")
    routes.unregister("C", "a", MASTER)
    routes.register(said("T", "U", address=SLAVE, broker_id=0), "s")
    assert routes.members("a") == {0: SLAVE}


def test_a_second_holder_of_an_id_with_an_older_state_is_ignored(routes, said) -> None:
    routes.register(said("T", "U", state=5), "m")
    older = said("T", "X", state=4, address="10.0.0.9:10911")
    assert routes.register(older, "o") == RegisterResult()
    assert routes.members("a") == {0: MASTER}
    assert ("C", "10.0.0.9:10911") not in routes.live
    newer = said("T", "X", state=6, address="10.0.0.9:10911")
    routes.register(newer, "n")
    assert routes.members("a") == {0: "10.0.0.9:10911"}


def test_two_clusters_and_brokers_are_listed_by_name(routes, said) -> None:
    routes.register(said("T", "U", broker_name="b", address="10.0.0.3:10911"), "1")
    routes.register(said("T", "V"), "2")
    routes.register(said("W", "X", broker_name="z", cluster="D", address="10.0.0.4:1"), "3")
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


def test_zone_acting_master_and_filter_servers_travel(routes, said) -> None:
    routes.register(
        said("T", "U", zone="z1", enable_acting_master=True, filter_servers=["f:1"]), "m"
    )
    route = routes.route("T")
    assert route.broker_datas[0].zone_name == "z1"
    assert route.broker_datas[0].enable_acting_master is True
    assert route.filter_server_table == {MASTER: ["f:1"]}
    routes.register(said("T", "U", filter_servers=[]), "m")
    assert routes.route("T").filter_server_table == {}


def test_queue_mappings_are_carried_until_the_broker_goes(routes, said) -> None:
    mapping = TopicQueueMappingInfo(topic="T", bname="a", total_queues=2)
    routes.register(said("T", "U", mappings={"T": mapping}), "m")
    assert routes.route("T").topic_queue_mapping_by_broker == {"a": mapping}
    assert routes.route("U").topic_queue_mapping_by_broker is None
    routes.unregister("C", "a", MASTER)
    assert routes.mappings == {}


# ---- data versions


def test_data_versions_are_equal_only_in_all_parts(routes, said) -> None:
    assert routes.is_changed("C", MASTER, DataVersion())
    assert routes.data_version_of("C", MASTER) is None
    routes.register(said("T", "U", counter=3, state=1), "m")
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


# ---- expiry and departure


def test_a_silent_broker_goes_after_120_seconds(routes, said, clock: ManualClock) -> None:
    routes.register(said("T", "U"), "channel")
    clock.advance(120_000)
    assert routes.expire() == []
    assert routes.route("T") is not None
    clock.advance(1)
    assert routes.expire() == ["channel"]
    assert routes.route("T") is None
    assert routes.groups == routes.clusters == routes.live == routes.topics == {}
    assert routes.expire() == []


def test_a_broker_may_ask_for_a_shorter_patience(routes, said, clock: ManualClock) -> None:
    routes.register(said("T", "U", timeout_ms=10_000), "channel")
    clock.advance(10_001)
    assert routes.expire() == ["channel"]


def test_every_sign_of_life_counts(routes, said, clock: ManualClock) -> None:
    routes.register(said("T", "U"), "channel")
    clock.advance(100_000)
    routes.heard_from("C", MASTER)
    clock.advance(100_000)
    assert routes.expire() == []
    routes.register(said("T", "U"), "channel")
    clock.advance(120_000)
    assert routes.expire() == []
    routes.heard_from("C", "10.0.0.9:1")
    assert len(routes.live) == 1


def test_a_closed_connection_takes_its_brokers_at_once(routes, said) -> None:
    routes.register(said("T", "U"), "one")
    routes.register(said("T", "V", broker_name="b", address="10.0.0.3:1"), "two")
    assert routes.channel_closed("one") == [MASTER]
    assert routes.channel_closed("one") == []
    assert [queues.broker_name for queues in routes.route("T").queue_datas] == ["b"]
    assert routes.all_topics() == ["T", "V"]


def test_a_newer_connection_of_the_same_broker_keeps_it(routes, said) -> None:
    routes.register(said("T", "U"), "old")
    routes.register(said("T", "U"), "new")
    assert routes.channel_closed("old") == []
    assert routes.route("T") is not None


def test_a_broker_says_goodbye(routes, said) -> None:
    routes.register(said("T", "U"), "m")
    routes.register(said("T", "U", address=SLAVE, broker_id=1), "s")
    routes.unregister("C", "a", MASTER)
    assert routes.members("a") == {1: SLAVE}
    assert routes.route("T").broker_datas[0].broker_addrs == {1: SLAVE}
    assert perms(routes, "T") == {"a": 6}
    routes.unregister("C", "a", SLAVE)
    assert routes.route("T") is None
    routes.unregister("C", "a", SLAVE)
    routes.unregister("C", "nobody", "x")


def test_without_its_master_an_acting_group_becomes_read_only(routes, said) -> None:
    routes.register(said("T", "U", enable_acting_master=True), "m")
    routes.register(said("T", "U", address=SLAVE, broker_id=1, enable_acting_master=True), "s")
    routes.unregister("C", "a", MASTER)
    assert perms(routes, "T") == {"a": 4}


# ---- acting master


def acting(clock: ManualClock, said, **config) -> RouteInfoManager:
    routes = RouteInfoManager(clock, NamesrvConfig(support_acting_master=True, **config))
    sync = "rmq_sys_SYNC_BROKER_MEMBER_a"
    routes.register(said("T", sync, enable_acting_master=True), "m")
    for number in (2, 1):
        slave = said(
            "T",
            sync,
            address=f"10.0.0.{number + 1}:10911",
            broker_id=number,
            enable_acting_master=True,
        )
        routes.register(slave, f"s{number}")
    return routes


def test_the_lowest_slave_is_shown_as_master_where_there_is_none(clock, said) -> None:
    routes = acting(clock, said)
    with_master = routes.route("T").broker_datas[0].broker_addrs
    assert with_master == {0: MASTER, 1: SLAVE, 2: "10.0.0.3:10911"}
    routes.unregister("C", "a", MASTER)
    assert routes.route("T").broker_datas[0].broker_addrs == {0: SLAVE, 2: "10.0.0.3:10911"}
    assert routes.members("a") == {1: SLAVE, 2: "10.0.0.3:10911"}
    sync = routes.route("rmq_sys_SYNC_BROKER_MEMBER_a")
    assert sync.broker_datas[0].broker_addrs == {1: SLAVE, 2: "10.0.0.3:10911"}


def test_nobody_acts_where_queues_can_be_written(clock, said) -> None:
    routes = acting(clock, said)
    routes.unregister("C", "a", MASTER)
    routes.add_write_perm("a")
    assert 0 not in routes.route("T").broker_datas[0].broker_addrs


def test_changes_of_the_lowest_id_are_told_to_the_group(clock, said) -> None:
    told: list[MinBrokerIdChange] = []
    config = NamesrvConfig(notify_min_broker_id_changed=True)
    routes = RouteInfoManager(clock, config, told.append)
    common = {"enable_acting_master": True}
    routes.register(said("T", "U", address=SLAVE, broker_id=1, **common), "s")
    routes.register(said("T", "U", **common), "m")
    assert [(c.min_broker_id, c.min_address, c.offline_address, c.notify) for c in told] == [
        (0, MASTER, None, [SLAVE])
    ]
    assert told[0].ha_address == "10.0.0.1:10912"
    routes.unregister("C", "a", MASTER)
    assert (told[1].min_broker_id, told[1].offline_address, told[1].notify) == (1, MASTER, [SLAVE])
    routes.config = NamesrvConfig()
    routes.register(said("T", "U", **common), "m")
    assert len(told) == 2


# ---- permissions, topics


def test_wiping_and_adding_write_permission(routes, said) -> None:
    inherit = TopicConfig(topic_name="TBW102", perm=7)
    routes.register(said("T", inherit), "m")
    routes.register(said("T", "V", broker_name="b", address="10.0.0.3:1"), "b")
    assert routes.wipe_write_perm("a") == 2
    assert (perms(routes, "T"), perms(routes, "TBW102")) == ({"a": 4, "b": 6}, {"a": 5})
    assert routes.add_write_perm("a") == 2
    assert (perms(routes, "T"), perms(routes, "TBW102")) == ({"a": 6, "b": 6}, {"a": 6})
    assert routes.wipe_write_perm("nobody") == 0
    routes.wipe_write_perm("a")
    routes.register(said("T", inherit), "m")
    assert perms(routes, "T")["a"] == 4
    routes.register(said("T", inherit, counter=1), "m")
    assert (perms(routes, "T")["a"], perms(routes, "TBW102")["a"]) == (6, 7)


def test_a_topic_is_forgotten_everywhere_or_on_one_cluster(routes, said) -> None:
    routes.register(said("T", "U"), "1")
    routes.register(said("T", "V", broker_name="z", cluster="D", address="10.0.0.4:1"), "2")
    assert routes.delete_topic("T", "nowhere") == 0
    assert routes.delete_topic("T", "D") == 1
    assert list(perms(routes, "T")) == ["a"]
    assert routes.delete_topic("T") == 1
    assert routes.route("T") is None
    assert routes.delete_topic("T") == 0


def test_a_topic_is_registered_on_known_brokers_only(routes, said) -> None:
    routes.register(said("T", "U"), "1")
    queues = QueueData(broker_name="a", read_queue_nums=2, write_queue_nums=2, perm=6)
    stranger = QueueData(broker_name="b", read_queue_nums=2, write_queue_nums=2, perm=6)
    assert not routes.register_topic("N", [queues, stranger])
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
def test_unit_lists_follow_the_topic_flags(routes, said, unit, unit_sub, expected) -> None:
    configs = [TopicConfig(topic_name=f"T{flag}", topic_sys_flag=flag) for flag in range(4)]
    routes.register(said(*configs), "m")
    assert routes.unit_topics(unit=unit, unit_sub=unit_sub) == expected


# ---- against a model


def test_the_tables_and_a_model_agree(said, rng: random.Random) -> None:
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
                said(*sorted(topics), counter=counter, broker_name=name, address=address), name
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
