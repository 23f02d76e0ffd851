"""The hosts that may register, unregister and refresh a broker."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.common.address import encode_address
from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.membership import MAX_BROKERS_PER_HOST, is_address_of
from broker.namesrv.server import NameServer
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.namesrv.route import QueueData, TopicRouteData
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder

OWNER = "10.0.0.1"
STRANGER = "10.0.0.2"


class World:
    """A name server and peers with chosen addresses."""

    def __init__(self, path: Path, **config) -> None:
        self.clock = ManualClock()
        settings = NamesrvConfig(
            kv_config_path=str(path / "kv.json"), config_store_path=str(path / "conf"), **config
        )
        self.server = NameServer(settings, clock=self.clock)
        self.peers: dict[str, SimpleNamespace] = {}

    def ask(self, host: str, code: int, ext: dict, body: bytes = b"") -> RemotingCommand:
        peer = self.peers.get(host)
        if peer is None:
            address = f"{host}:40000"
            peer = self.peers[host] = SimpleNamespace(
                access=self.server.server.access.level_of(host),
                remote_address=address,
                remote_host=encode_address(address),
                closed=False,
            )
        frame = self.server.server.answer(peer, request(code, ext, body))
        (answer,) = FrameDecoder().feed(b"".join(frame))
        return answer

    def register(
        self, host: str, address: str = "", name: str = "a", broker_id: int = 0
    ) -> RemotingCommand:
        table = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
            for topic in ("T", "U")
        }
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
                topic_config_table=table, data_version=DataVersion(counter=1, timestamp=7)
            )
        )
        return self.ask(
            host,
            RequestCode.REGISTER_BROKER,
            broker_fields(address or f"{host}:10911", name, broker_id),
            body.to_bytes(),
        )

    def members(self, name: str = "a") -> dict[int, str]:
        return self.server.routes.members(name)


def broker_fields(address: str, name: str = "a", broker_id: int = 0) -> dict[str, str]:
    return {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": "C",
        "haServerAddr": address,
        "brokerId": str(broker_id),
    }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_brokers_of_several_hosts_register_without_configuration(world: World) -> None:
    assert world.register(OWNER).code == 0
    assert world.register(STRANGER, broker_id=1).code == 0  # its slave
    assert world.register("10.0.0.3", name="b").code == 0
    assert world.members() == {0: f"{OWNER}:10911", 1: f"{STRANGER}:10911"}
    assert world.register(OWNER).code == 0  # again, every 30 s
    moved = world.register(OWNER, f"{OWNER}:20911")  # restarted on another port
    assert moved.code == 0
    assert world.members()[0] == f"{OWNER}:20911"


def test_a_live_broker_is_not_replaced_by_another_host(world: World) -> None:
    world.register(OWNER)
    for address in ("", f"{OWNER}:10911", "127.0.0.1:10911", "broker.example:10911", "nonsense"):
        answer = world.register(STRANGER, address)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "clusterMembers" in answer.remark
    assert world.members() == {0: f"{OWNER}:10911"}


def test_an_expired_broker_may_be_replaced_by_another_host(world: World) -> None:
    world.register(OWNER)
    world.clock.advance(121_000)
    world.server.routes.expire()
    assert world.register(STRANGER).code == 0
    assert world.members() == {0: f"{STRANGER}:10911"}


def test_a_negative_broker_id_is_refused(world: World) -> None:
    world.register(OWNER)
    assert world.register(STRANGER, broker_id=-1).code == ResponseCode.NO_PERMISSION
    assert world.members() == {0: f"{OWNER}:10911"}


def test_the_brokers_of_an_unlisted_host_are_bounded(world: World) -> None:
    for port in range(1, MAX_BROKERS_PER_HOST + 1):
        assert world.register(STRANGER, f"{STRANGER}:{port}", name=f"b{port}").code == 0
    assert world.register(STRANGER, f"{STRANGER}:1", name="b1").code == 0
    refused = world.register(STRANGER, f"{STRANGER}:999", name="more")
    assert refused.code == ResponseCode.NO_PERMISSION
    assert "the limit" in refused.remark
    assert world.register(OWNER).code == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.UNREGISTER_BROKER,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.QUERY_DATA_VERSION,
    ],
)
def test_a_host_may_change_only_its_own_brokers(world: World, code: int) -> None:
    world.register(OWNER)
    ext = broker_fields(f"{OWNER}:10911")
    assert world.ask(STRANGER, code, ext).code == ResponseCode.NO_PERMISSION
    del ext["brokerAddr"]
    assert world.ask(STRANGER, code, ext).code == ResponseCode.NO_PERMISSION
    assert world.members()
    assert world.ask(OWNER, code, broker_fields(f"{OWNER}:10911")).code == 0


def test_another_host_cannot_refresh_the_liveness_of_a_broker(world: World) -> None:
    world.register(OWNER)
    for _ in range(3):
        world.clock.advance(50_000)
        world.ask(STRANGER, RequestCode.BROKER_HEARTBEAT, broker_fields(f"{OWNER}:10911"))
        world.server.routes.expire()
    assert world.members() == {}


def test_a_topic_is_registered_only_by_a_host_of_its_brokers(world: World) -> None:
    world.register(OWNER)

    def register_topic(host: str, topic: str, *names: str) -> int:
        body = TopicRouteData(queue_datas=[QueueData(broker_name=name) for name in names])
        code = RequestCode.REGISTER_TOPIC_IN_NAMESRV
        return world.ask(host, code, {"topic": topic}, body.to_bytes()).code

    assert register_topic(STRANGER, "Evil", "a") == ResponseCode.NO_PERMISSION
    world.register(STRANGER, name="b")
    assert register_topic(STRANGER, "Evil", "b", "a") == ResponseCode.NO_PERMISSION
    assert register_topic(STRANGER, "Own", "b") == 0
    assert register_topic(OWNER, "New", "a") == 0
    assert world.server.routes.all_topics() == ["New", "Own", "T", "U"]


def test_only_listed_members_register_if_members_are_listed(tmp_path) -> None:
    world = World(tmp_path, cluster_members="10.0.0.1;10.0.1.0/24")
    assert world.register("10.0.1.9", f"{OWNER}:10911").code == 0
    assert world.register(OWNER, "broker-a.example:10911").code == 0
    assert world.register(STRANGER, name="b").code == ResponseCode.NO_PERMISSION
    assert world.members() == {0: "broker-a.example:10911"}


def test_loopback_is_an_administrator(world: World) -> None:
    assert world.register("127.0.0.1", f"{OWNER}:10911").code == 0
    ext = broker_fields(f"{OWNER}:10911")
    assert world.ask("127.0.0.1", RequestCode.UNREGISTER_BROKER, ext).code == 0
    assert world.members() == {}


@pytest.mark.parametrize(
    ("address", "host", "same"),
    [
        ("10.0.0.1:10911", "10.0.0.1", True),
        ("[2001:db8::1]:1", "2001:db8:0:0::1", True),
        ("[::ffff:10.0.0.1]:1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", False),
        ("", "10.0.0.1", False),
        ("10.0.0.10:1", "10.0.0.1", False),
    ],
)
def test_an_address_belongs_to_a_host_by_its_ip(address: str, host: str, same: bool) -> None:
    bracketed = f"[{host}]:1" if ":" in host else f"{host}:1"
    assert is_address_of(address, encode_address(bracketed)[:-4]) is same
