"""The group table: presets, automatic creation, forbidden topics."""

import pytest

from broker.common.clock import ManualClock
from broker.common.group import PRESET_GROUPS, SubscriptionGroupConfig
from broker.server.configuration.config import BrokerConfig
from broker.server.tables import subscription_group as module
from broker.server.tables.subscription_group import SubscriptionGroupManager


@pytest.fixture
def make_table():
    def make(**fields) -> SubscriptionGroupManager:
        table = SubscriptionGroupManager(BrokerConfig(**fields), ManualClock())
        table.add_preset_groups()
        return table

    return make


def test_preset_groups_are_there(make_table) -> None:
    table = make_table()
    assert set(PRESET_GROUPS) == set(table.configs)
    version = table.data_version.counter
    table.add_preset_groups()
    assert table.data_version.counter == version


def test_unknown_group_is_made_with_defaults(make_table) -> None:
    table = make_table()
    before = table.data_version.counter
    assert table.find("G1") == SubscriptionGroupConfig(group_name="G1")
    assert table.find("G1") is table.configs["G1"]
    assert table.data_version.counter == before + 1


def test_unknown_group_is_not_made_when_that_is_off(make_table) -> None:
    table = make_table(auto_create_subscription_group=False)
    assert table.find("G1") is None
    assert table.find("CID_RMQ_SYS_OWN").group_name == "CID_RMQ_SYS_OWN"


@pytest.mark.parametrize("name", ["", "bad name", "g" * 256, "TBW102"])
def test_invalid_group_names_are_not_created(make_table, name) -> None:
    assert make_table().find(name) is None


def test_creation_has_a_limit(make_table, monkeypatch) -> None:
    table = make_table()
    monkeypatch.setattr(module, "MAX_GROUPS", len(table.configs) + 1)
    assert table.find("G1") is not None
    assert table.find("G2") is None
    assert table.find("G1") is not None


def test_changes_count_once(make_table) -> None:
    table = make_table()
    before = table.data_version.counter
    config = SubscriptionGroupConfig(group_name="G1", retry_max_times=1)
    table.put_all([config, SubscriptionGroupConfig(group_name="G2")])
    table.put_all([config])
    assert table.data_version.counter == before + 1
    assert table.delete("G1")
    assert not table.delete("G1")
    assert table.data_version.counter == before + 2
    assert "G1" not in table
    assert "G2" in table


def test_forbidden_topics(make_table) -> None:
    table = make_table()
    assert table.may_read("G1", "T")
    table.forbid_read("G1", "T", True)
    assert not table.may_read("G1", "T")
    assert table.may_read("G1", "U")
    assert table.forbidden == {"G1": {"T": 4}}
    version = table.data_version.counter
    table.forbid_read("G1", "T", True)
    assert table.data_version.counter == version
    table.forbid_read("G1", "T", False)
    assert table.forbidden == {}


def test_other_forbidden_bits_stay(make_table) -> None:
    table = make_table()
    table.load({}, {"G1": {"T": 5}}, None)
    table.forbid_read("G1", "T", False)
    assert table.forbidden == {"G1": {"T": 1}}


def test_a_deleted_group_loses_its_restrictions(make_table) -> None:
    table = make_table()
    table.forbid_read("G1", "T", True)
    assert not table.delete("G1")
    assert table.may_read("G1", "T")
