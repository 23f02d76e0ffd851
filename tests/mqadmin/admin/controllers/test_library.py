import pytest

from broker.errors import BrokerError, ClientError
from mqadmin.admin.controllers.library import ControllerAdmin, add_broker, remove_broker
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker

REPLICAS = (
    b'{"replicasInfoTable":{"broker-a":{"masterBrokerId":1,"masterAddress":"10.0.0.1:1",'
    b'"masterEpoch":2,"syncStateSetEpoch":3,"inSyncReplicas":[{"brokerName":"broker-a",'
    b'"brokerId":1,"brokerAddress":"10.0.0.1:1","alive":true}],"notInSyncReplicas":[]}}}'
)
ELECTED = b'{"brokerMemberGroup":{"brokerAddrs":{2:"10.0.0.2:1"}},"syncStateSet":[2]}'


@pytest.fixture
def controller(admin: MQAdmin, broker_a: FakeBroker) -> ControllerAdmin:
    """A fake broker that answers as a controller and its own leader."""
    meta = {
        "group": "g",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": broker_a.address,
        "peers": f"n0-{broker_a.address}",
    }
    broker_a.on_1005 = lambda header, command: (meta, b"")
    return ControllerAdmin(admin, f"{broker_a.address};10.9.9.9:1")


def test_metadata_name_the_leader(controller: ControllerAdmin, broker_a: FakeBroker) -> None:
    found = controller.metadata()
    assert (found.group, found.leader_id, found.leader_address) == ("g", "n0", broker_a.address)


def test_sync_states_are_asked_of_the_leader(
    controller: ControllerAdmin, broker_a: FakeBroker
) -> None:
    broker_a.on_1006 = lambda header, command: REPLICAS
    (state,) = controller.sync_states(["broker-a"])
    assert (state.broker_name, state.master_broker_id) == ("broker-a", 1)
    assert [one.broker_id for one in state.in_sync] == [1]


def test_an_election_designates_a_broker(controller: ControllerAdmin, broker_a: FakeBroker) -> None:
    asked: list[object] = []

    def elect(header: object, command: object) -> tuple[dict[str, str], bytes]:
        asked.append(header)
        return {"masterBrokerId": "2", "masterAddress": "10.0.0.2:1", "masterEpoch": "4"}, ELECTED

    broker_a.on_1002 = elect
    found = controller.elect("C", "broker-a", 2)
    assert (found.master_broker_id, found.members) == (2, {2: "10.0.0.2:1"})
    assert asked[0].designate_elect is True  # type: ignore[attr-defined]


def test_settings_are_read_and_sent_as_properties(
    controller: ControllerAdmin, broker_a: FakeBroker
) -> None:
    bodies: list[bytes] = []
    broker_a.on_1010 = lambda header, command: b"b=2\na=1\n"
    broker_a.on_1009 = lambda header, command: bodies.append(command.body_bytes())
    assert list(controller.config()) == ["a", "b"]
    controller.set_config({"a": "3"})
    assert bodies[0].strip() == b"a=3"


def test_metadata_of_brokers_are_cleaned_by_id(
    controller: ControllerAdmin, broker_a: FakeBroker
) -> None:
    asked: list[object] = []
    broker_a.on_1011 = lambda header, command: asked.append(header)
    controller.clean_broker("broker-a", cluster="C", ids=[1, 2], living=False)
    assert asked[0].broker_controller_ids_to_clean == "1;2"  # type: ignore[attr-defined]


def test_a_controller_without_a_leader_is_refused(
    controller: ControllerAdmin, broker_a: FakeBroker
) -> None:
    broker_a.on_1005 = lambda header, command: ({}, b"")
    with pytest.raises(ClientError, match="knows no leader"):
        controller.sync_states(["broker-a"])


def test_a_broker_is_neither_controller_nor_container(admin: MQAdmin, broker_b: FakeBroker) -> None:
    with pytest.raises(BrokerError, match="REQUEST_CODE_NOT_SUPPORTED"):
        ControllerAdmin(admin, broker_b.address).metadata()
    with pytest.raises(BrokerError, match="ADD_BROKER"):
        add_broker(admin, broker_b.address, "/x")
    with pytest.raises(BrokerError, match="REMOVE_BROKER"):
        remove_broker(admin, broker_b.address, "c:n:1")
    with pytest.raises(ClientError, match="not a broker of a container"):
        remove_broker(admin, broker_b.address, "c:n:x")
