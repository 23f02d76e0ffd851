import pytest

from broker.errors import ClientError, ConfigError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.brokers.settings import BrokerSettings, check_setting
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster

CONFIG = {
    "brokerPermission": "6",
    "flushDelayOffsetInterval": "10000",
    "ratio": "0.75",
    "storePathRootDir": "/store",
    "traceOn": "true",
}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("nope", "1", "no setting nope"),
        ("traceOn", "yes", "not true or false"),
        ("flushDelayOffsetInterval", "soon", "not a whole number"),
        ("flushDelayOffsetInterval", "1.5", "not a whole number"),
        ("flushDelayOffsetInterval", "1e3", "not a whole number"),
        ("flushDelayOffsetInterval", "1_000", "not a whole number"),
        ("flushDelayOffsetInterval", "nan", "not a whole number"),
        ("flushDelayOffsetInterval", " 5", "not a whole number"),
        ("flushDelayOffsetInterval", "", "not a whole number"),
        ("ratio", "nan", "not a number"),
        ("ratio", "inf", "not a number"),
        ("ratio", "1_0.0", "not a number"),
        ("brokerPermission", "7", "not 2, 4 or 6"),
    ],
)
def test_a_value_that_a_broker_would_drop_is_refused(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_setting(key, value, CONFIG, "broker-a")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("flushDelayOffsetInterval", value) for value in ("0", "-1", "20000")),
        *(("ratio", value) for value in ("1", "0.5", "-1.25")),
        ("traceOn", "false"),
        ("brokerPermission", "4"),
        ("storePathRootDir", "5"),
    ],
)
def test_a_value_of_the_type_of_the_present_one_is_accepted(key: str, value: str) -> None:
    check_setting(key, value, CONFIG, "broker-a")


def test_a_misspelt_key_has_a_hint() -> None:
    with pytest.raises(ConfigError) as caught:
        check_setting("flushdelay", "1", CONFIG, "broker-a")
    assert "flushDelayOffsetInterval" in caught.value.hint


def test_an_unknown_key_leads_to_the_list_of_settings() -> None:
    with pytest.raises(ConfigError) as caught:
        check_setting("nope", "1", CONFIG, "broker-a")
    assert caught.value.hint == "mqadmin broker config show lists the settings"
    with pytest.raises(ConfigError) as caught:
        check_setting("nope", "1", CONFIG, "name server h:1", "mqadmin namesrv config show")
    assert caught.value.hint == "mqadmin namesrv config show lists the settings"


def test_settings_are_changed_and_read_back(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    library = BrokerSettings(admin)
    broker_b.config["flushDelayOffsetInterval"] = "5"
    plan = library.plan_set({"flushDelayOffsetInterval": "5"}, cluster="DefaultCluster")
    assert [change.unchanged for change in plan.changes] == [False, True]
    outcome = admin.apply(plan)
    assert [item.status for item in outcome.items] == ["done", "unchanged"]
    assert broker_a.config["flushDelayOffsetInterval"] == "5"


def test_a_broker_that_ignores_the_change_differs(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.on_25 = lambda header, command: None
    library = BrokerSettings(admin)
    plan = library.plan_set({"flushDelayOffsetInterval": "5"}, broker="broker-a")
    (item,) = library.apply(plan).items
    assert item.status == "differs"


def test_slaves_are_changed_only_on_request(admin: MQAdmin, cluster: FakeCluster) -> None:
    slave = cluster.add("broker-a", broker_id=1)
    library = BrokerSettings(admin)
    values = {"flushDelayOffsetInterval": "5"}
    masters = library.plan_set(values, cluster="DefaultCluster")
    every = library.plan_set(values, cluster="DefaultCluster", replicas=True)
    assert slave.address not in {change.address for change in masters.changes}
    assert slave.address in {change.address for change in every.changes}


def test_a_broker_needs_no_cluster_beside_its_name(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_b.cluster_name = "OtherCluster"
    library = BrokerSettings(admin)
    values = {"flushDelayOffsetInterval": "5"}
    (change,) = library.plan_set(values, broker="broker-a").changes
    assert change.address == broker_a.address
    with pytest.raises(ClientError, match="broker-a is not registered in cluster OtherCluster"):
        library.plan_set(values, broker="broker-a", cluster="OtherCluster")


def test_differences_leave_out_identity_and_paths(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker, cluster: FakeCluster
) -> None:
    broker_a.config |= {"brokerName": "a", "storePathRootDir": "/a", "traceOn": "true"}
    broker_b.config |= {"brokerName": "b", "storePathRootDir": "/b"}
    library = BrokerSettings(admin)
    (row,) = library.differences().items
    assert row.key == "traceOn"
    assert row.values == {"broker-a:0": "true", "broker-b:0": None}
    keys = {item.key for item in library.differences(everything=True).items}
    assert keys == {"brokerName", "storePathRootDir", "traceOn"}
    assert cluster.asked(RequestCode.GET_BROKER_CONFIG)
