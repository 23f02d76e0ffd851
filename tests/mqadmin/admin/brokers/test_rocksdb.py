import pytest

from broker.errors import ConfigError
from mqadmin.admin.brokers.rocksdb import check_write_progress, export_config
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker


def test_brokers_without_rocksdb_are_errors(admin: MQAdmin, broker_a: FakeBroker) -> None:
    broker_a.on_354 = lambda header, command: None
    broker_a.on_355 = lambda header, command: None
    for listing in (
        check_write_progress(admin, "DefaultCluster", since_ms=1),
        export_config(admin, ["topics"], cluster="DefaultCluster"),
    ):
        assert [target.label for target in listing.items] == ["broker-a"]
        assert [error.target for error in listing.errors] == ["broker-b"]


@pytest.mark.parametrize("types", [[], ["nope"], ["topics", "nope"]])
def test_a_type_is_one_of_three(admin: MQAdmin, types: list[str]) -> None:
    with pytest.raises(ConfigError, match="not a type"):
        export_config(admin, types, broker="broker-a")
