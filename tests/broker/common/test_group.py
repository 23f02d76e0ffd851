import pytest

from broker.common import group as g
from broker.common.encoding.java_json import dumps, loads
from broker.common.group import (
    SubscriptionGroupConfig,
    check_group_name,
    group_config_from_wire,
    group_config_to_wire,
)
from broker.errors import RemoteProtocolError

VERSION_4 = {
    "brokerId",
    "consumeBroadcastEnable",
    "consumeEnable",
    "consumeFromMinEnable",
    "groupName",
    "notifyConsumerIdsChangedEnable",
    "retryMaxTimes",
    "retryQueueNums",
    "whichBrokerWhenConsumeSlowly",
}


def test_golden_config_survives(vectors) -> None:
    text = vectors["config_json"]["subscriptionGroup.json (5.x)"]
    value = loads(text)
    table = value["subscriptionGroupTable"]
    for name, wire in table.items():
        config = group_config_from_wire(wire)
        assert config.group_name == name
        assert config.extra == {}
        table[name] = group_config_to_wire(config)
    assert dumps(value, pretty=True) == text


def test_defaults_are_javas(vectors) -> None:
    wire = loads(vectors["config_json"]["subscriptionGroup.json (5.x)"])
    expected = SubscriptionGroupConfig("GroupB")
    assert group_config_from_wire(wire["subscriptionGroupTable"]["GroupB"]) == expected
    assert group_config_from_wire({"groupName": "GroupB"}) == expected


def test_4_9_form_has_only_its_fields() -> None:
    assert set(group_config_to_wire(SubscriptionGroupConfig("G"), version_4=True)) == VERSION_4


def test_optional_and_unknown_fields_survive() -> None:
    subscription = {"topic": "T", "expressionType": "TAG", "expression": "*", "version": 1}
    wire = {
        "groupName": "G",
        "retryMaxTimes": "3",
        "consumeEnable": False,
        "subscriptionDataSet": [subscription],
        "aaa": {"x": 1},
        "extra": 5,
    }
    config = group_config_from_wire(wire)
    assert (config.retry_max_times, config.consume_enable) == (3, False)
    again = group_config_to_wire(config)
    assert list(again) == sorted(again)
    assert again["subscriptionDataSet"] == [subscription]
    assert (again["aaa"], again["extra"]) == ({"x": 1}, 5)
    assert group_config_from_wire(again) == config


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="retryMaxTimes"):
        group_config_from_wire({"retryMaxTimes": "many"})


def test_system_groups() -> None:
    assert g.is_system_group("TOOLS_CONSUMER")
    assert g.is_system_group("CID_RMQ_SYS_x")
    assert not g.is_system_group("G")
    assert len(g.PRESET_GROUPS) == 8


def test_group_names() -> None:
    assert check_group_name("G%-_|9") is None
    assert "blank" in (check_group_name(" ") or "")
    assert "'.'" in (check_group_name("a.b") or "")
    assert check_group_name("g" * 255) is None
    assert "255" in (check_group_name("g" * 256) or "")
    assert "120" in (check_group_name("g" * 121, max_length=g.GROUP_MAX_LENGTH) or "")
