import pytest

from broker.errors import ClientError, ConfigError
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.namesrv.library import NamesrvAdmin
from tests.support.fake_brokers import FakeCluster


@pytest.fixture
def library(cluster: FakeCluster) -> NamesrvAdmin:
    cluster.add_namesrv("127.0.0.1:9877")
    return NamesrvAdmin(cluster.admin())


def test_an_entry_is_put_on_every_name_server_and_read_back(
    library: NamesrvAdmin, cluster: FakeCluster
) -> None:
    cluster.namesrvs[1].kv["A", "k"] = "old"
    plan = library.plan_kv_put("A", "k", "v")
    assert [change.action for change in plan.changes] == ["create", "update"]
    assert library.apply(plan).ok
    assert [server.kv["A", "k"] for server in cluster.namesrvs] == ["v", "v"]
    assert [item.value for item in library.kv_get("A", "k").items] == ["v", "v"]
    assert [item.key for item in library.kv_list("A").items] == ["k", "k"]


def test_an_entry_is_deleted_where_it_is(library: NamesrvAdmin, cluster: FakeCluster) -> None:
    cluster.namesrvs[1].kv["A", "k"] = "old"
    plan = library.plan_kv_delete("A", "k")
    assert [change.unchanged for change in plan.changes] == [True, False]
    assert library.apply(plan).ok
    assert not library.kv_get("A", "k").items
    assert not library.kv_list("A").items


def test_a_name_server_that_is_down_does_not_affect_the_other(
    library: NamesrvAdmin, cluster: FakeCluster
) -> None:
    cluster.namesrvs[0].down = True
    plan = library.plan_kv_put("A", "k", "v")
    outcome = library.apply(plan)
    assert cluster.namesrvs[1].kv["A", "k"] == "v"
    assert [error.address for error in outcome.errors] == ["127.0.0.1:9876"]


def test_settings_are_checked_changed_and_read_back(
    library: NamesrvAdmin, cluster: FakeCluster
) -> None:
    with pytest.raises(ConfigError, match="no setting nope"):
        library.plan_config_set({"nope": "1"})
    with pytest.raises(ConfigError, match="is not a whole number"):
        library.plan_config_set({"listenPort": "x"})
    plan = library.plan_config_set({"listenPort": "1", "kvConfigPath": "/y"})
    assert library.apply(plan).ok
    assert [item.config["listenPort"] for item in library.config().items] == ["1", "1"]


def test_the_write_permission_counts_the_topics(
    library: NamesrvAdmin, cluster: FakeCluster
) -> None:
    with pytest.raises(ClientError, match="no broker is named"):
        library.plan_write_perm("nope", allow=False)
    outcome = library.apply(library.plan_write_perm("broker-a", allow=False))
    assert [item.read_back for item in outcome.items] == [{"topics": 3}, {"topics": 3}]
    outcome = library.apply(library.plan_write_perm("broker-a", allow=True))
    assert [error.response_code for error in outcome.errors] == [3, 3]


def test_the_facade_applies_plans_of_name_servers(admin: MQAdmin) -> None:
    assert admin.apply(admin.namesrv.plan_kv_put("A", "k", "v")).ok
