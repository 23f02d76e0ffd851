"""Name servers: each has its own answer, each gets every change."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode


@pytest.fixture
def two(cluster):
    cluster.add_namesrv("127.0.0.1:9877")
    return cluster.admin()


def test_config_of_each(two, cluster) -> None:
    cluster.namesrvs[1].config["listenPort"] = "9877"
    ports = [record.config["listenPort"] for record in two.namesrv.config().items]
    assert ports == ["9876", "9877"]


def test_config_change(two, cluster) -> None:
    assert two.apply(two.namesrv.plan_config({"listenPort": "1"})).ok
    assert [server.config["listenPort"] for server in cluster.namesrvs] == ["1", "1"]
    with pytest.raises(ClientError, match="knows no setting x"):
        two.namesrv.plan_config({"x": "1"})


def test_kv_put_get_list_delete(two, cluster) -> None:
    assert two.apply(two.namesrv.plan_kv_put("ns", "k", "v")).ok
    assert [record.value for record in two.namesrv.kv_get("ns", "k").items] == ["v", "v"]
    cluster.namesrvs[1].kv.clear()
    assert len(two.namesrv.kv_list("ns").items) == 1
    outcome = two.apply(two.namesrv.plan_kv_delete("ns", "k"))
    assert [item.status for item in outcome.items] == ["done", "unchanged"]
    assert two.namesrv.kv_list("ns").items == []


def test_a_dead_name_server_is_an_error_not_an_empty_answer(two, cluster) -> None:
    cluster.namesrvs[1].down = True
    plan = two.namesrv.plan_kv_put("ns", "k", "v")
    assert len(plan.changes) == 1
    assert [error.kind for error in plan.errors] == ["unreachable"]
    assert [error.target for error in two.namesrv.kv_list("ns").errors] == ["127.0.0.1:9877"]
    assert [error.target for error in two.namesrv.config().errors] == ["127.0.0.1:9877"]


def test_write_permission_goes_to_every_name_server(two, cluster) -> None:
    outcome = two.apply(two.namesrv.plan_write_perm("broker-a", add=False))
    assert outcome.ok
    assert len(cluster.asked(RequestCode.WIPE_WRITE_PERM_OF_BROKER)) == 2
    with pytest.raises(ClientError, match="no broker is called"):
        two.namesrv.plan_write_perm("nope", add=True)
