"""Every request code of a name server, frame in and frame out, without sockets."""

import asyncio
import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.common.clock import ManualClock
from broker.common.config.properties import parse_properties
from broker.common.encoding import java_json
from broker.common.topic import TopicConfig
from broker.errors import BrokerError
from broker.namesrv.processor import DECODED_AT_ONCE_BYTES
from broker.remoting.protocol.body.namesrv.cluster import ClusterInfo
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.namesrv.route import BrokerData, QueueData, TopicRouteData
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.rpc import RPC, Access
from tests.support.namesrv_desk import CHANNEL, NamesrvDesk

BROKER = {
    "brokerName": "a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "C",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
}


class Server(NamesrvDesk):
    """A name server that brokers register with."""

    def register(self, *topics: str, counter: int = 1, ext: dict | None = None, **fields):
        body = registration(*topics, counter=counter)
        return self.ask(RequestCode.REGISTER_BROKER, {**BROKER, **(ext or {})}, body, **fields)


def registration(*topics: str, counter: int = 1) -> bytes:
    return registration_body(*topics, counter=counter).to_bytes()


def registration_body(*topics: str, counter: int = 1) -> RegisterBrokerBody:
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4)
        for topic in topics
    }
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
            topic_config_table=table, data_version=DataVersion(counter=counter, timestamp=7)
        )
    )


@pytest.fixture
def make(tmp_path: Path, clock: ManualClock) -> Callable[..., Server]:
    return lambda **config: Server(tmp_path, clock, **config)


@pytest.fixture
def server(make) -> Server:
    return make()


def test_every_code_that_the_rpc_table_assigns_to_name_servers_is_served(server: Server) -> None:
    served = {code for code, rpc in RPC.items() if "namesrv" in rpc.served_by}
    assert set(server.processor.handlers()) == served


# ---- brokers


def test_a_registration_served_after_its_connection_closed_changes_nothing(server: Server) -> None:
    closed = SimpleNamespace(**(vars(CHANNEL) | {"closed": True}))
    command = request(RequestCode.REGISTER_BROKER, BROKER, registration("T"))
    server.endpoint.answer(closed, command)
    route = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert route.code == ResponseCode.TOPIC_NOT_EXIST


def test_a_registration_is_answered_and_routed(server: Server) -> None:
    answer = server.register("T", "U")
    assert (answer.code, answer.ext_fields, answer.body) == (0, {}, b"")
    route = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert route.code == 0
    assert route.body == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"a","cluster":"C",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"a",'
        b'"perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize(
    ("version", "ext", "quoted"),
    [
        (400, {}, False),
        (401, {}, True),
        (479, {}, True),
        (121, {"acceptStandardJsonOnly": "true"}, True),
        (121, {"acceptStandardJsonOnly": "false"}, False),
    ],
)
def test_old_clients_get_unquoted_broker_ids(server: Server, version, ext, quoted) -> None:
    server.register("T", "U")
    answer = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", **ext}, version=version)
    assert (b'{"0":' in answer.body) is quoted
    assert (b"{0:" in answer.body) is not quoted


def test_cluster_info_always_has_unquoted_broker_ids(server: Server) -> None:
    server.register("T", "U")
    answer = server.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert answer.body == (
        b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"a",'
        b'"cluster":"C","enableActingMaster":false}},"clusterAddrTable":{"C":["a"]}}'
    )


def test_the_checksum_of_a_registration_is_checked(server: Server) -> None:
    body = registration("T", "U")
    crc = zlib.crc32(body) & 0x7FFFFFFF
    good = server.ask(RequestCode.REGISTER_BROKER, {**BROKER, "bodyCrc32": str(crc)}, body)
    bad = server.ask(RequestCode.REGISTER_BROKER, {**BROKER, "bodyCrc32": str(crc + 1)}, body)
    unchecked = server.ask(RequestCode.REGISTER_BROKER, {**BROKER, "bodyCrc32": "0"}, body)
    assert [good.code, bad.code, unchecked.code] == [0, ResponseCode.SYSTEM_ERROR, 0]
    assert "bodyCrc32" in bad.remark


@pytest.mark.parametrize("version", [373, 479])
def test_a_compressed_registration_is_read(server: Server, version: int) -> None:
    body = registration_body("T", "U").encode_compressed(version=version)
    answer = server.ask(
        RequestCode.REGISTER_BROKER, {**BROKER, "compressed": "true"}, body, version=version
    )
    assert answer.code == 0
    assert server.routes.all_topics() == ["T", "U"]


def test_a_broker_before_3_0_11_sends_the_bare_table(server: Server) -> None:
    wrapper = registration_body("T", "U").topic_config_serialize_wrapper
    server.ask(RequestCode.REGISTER_BROKER, BROKER, wrapper.to_bytes(), version=36)
    assert server.routes.all_topics() == ["T", "U"]


def test_a_single_topic_of_an_unregistered_broker_is_an_error_response(server: Server) -> None:
    assert server.register("T").code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"topicConfigSerializeWrapper":7}', b"\xff"])
def test_an_invalid_registration_is_an_error_response_and_changes_nothing(server, body) -> None:
    answer = server.ask(RequestCode.REGISTER_BROKER, BROKER, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert server.routes.groups == {}


def test_a_missing_field_is_named(server: Server) -> None:
    ext = {key: value for key, value in BROKER.items() if key != "brokerAddr"}
    answer = server.ask(RequestCode.REGISTER_BROKER, ext, registration("T", "U"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "brokerAddr" in answer.remark


def test_a_slave_receives_the_addresses_of_its_master(server: Server) -> None:
    server.register("T", "U")
    answer = server.register("T", "U", ext={"brokerId": "1", "brokerAddr": "10.0.0.2:10911"})
    assert answer.ext_fields == {
        "masterAddr": "10.0.0.1:10911",
        "haServerAddr": "10.0.0.1:10912",
    }


def test_the_response_contains_the_order_table_if_configured(make) -> None:
    for returned in (True, False):
        server = make(return_order_topic_config_to_broker=returned)
        server.kv.put("ORDER_TOPIC_CONFIG", "T", "a:4")
        answer = server.register("T", "U")
        assert answer.body == (b'{"table":{"T":"a:4"}}' if returned else b"")


def test_a_route_contains_the_registered_zone(server: Server) -> None:
    server.register("T", "U", ext={"__ZONE_NAME": "z1", "enableActingMaster": "true"})
    route = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    broker = TopicRouteData.from_bytes(route.body).broker_datas[0]
    assert (broker.zone_name, broker.enable_acting_master) == ("z1", True)
    for ext, brokers in (
        ({"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}, 1),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": "z2"}, 0),
        ({"__ZONE_MODE": "true", "__ZONE_NAME": " "}, 1),
        ({"__ZONE_MODE": "false", "__ZONE_NAME": "z2"}, 1),
        ({"__ZONE_NAME": "z2"}, 1),
    ):
        route = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T", **ext})
        assert len(TopicRouteData.from_bytes(route.body).broker_datas) == brokers


def test_unregistering_removes_the_route(server: Server) -> None:
    server.register("T", "U")
    ext = {key: BROKER[key] for key in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    assert server.ask(RequestCode.UNREGISTER_BROKER, ext).code == 0
    answer = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "T" in answer.remark


def test_a_data_version_query_refreshes_the_liveness(server: Server, clock) -> None:
    ask = {key: BROKER[key] for key in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    version = DataVersion(counter=1, timestamp=7)
    unknown = server.ask(RequestCode.QUERY_DATA_VERSION, ask, version.to_bytes())
    assert (unknown.ext_fields, unknown.body) == ({"changed": "true"}, b"")
    server.register("T", "U")
    clock.advance(100_000)
    same = server.ask(RequestCode.QUERY_DATA_VERSION, ask, version.to_bytes())
    assert same.ext_fields == {"changed": "false"}
    assert DataVersion.from_bytes(same.body) == version
    other = DataVersion(counter=2, timestamp=7)
    changed = server.ask(RequestCode.QUERY_DATA_VERSION, ask, other.to_bytes())
    assert changed.ext_fields == {"changed": "true"}
    clock.advance(100_000)
    assert server.routes.expire() == []


def test_a_heartbeat_refreshes_the_liveness(server: Server, clock) -> None:
    server.register("T", "U", ext={"heartbeatTimeoutMillis": "10000"})
    clock.advance(9_000)
    ext = {key: BROKER[key] for key in ("brokerName", "brokerAddr", "clusterName")}
    assert server.ask(RequestCode.BROKER_HEARTBEAT, ext).code == 0
    clock.advance(9_000)
    assert server.routes.expire() == []
    clock.advance(1_001)
    assert server.routes.expire() == [CHANNEL]


def test_the_members_of_a_group_are_listed(server: Server) -> None:
    server.register("T", "U")
    ext = {"clusterName": "C", "brokerName": "a"}
    answer = server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, ext)
    assert java_json.loads(answer.body) == {
        "brokerMemberGroup": {
            "brokerAddrs": {0: "10.0.0.1:10911"},
            "brokerName": "a",
            "cluster": "C",
        }
    }
    unknown = server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, {**ext, "brokerName": "b"})
    assert java_json.loads(unknown.body)["brokerMemberGroup"]["brokerAddrs"] == {}


def test_write_permission_is_wiped_and_added_with_a_count(server: Server) -> None:
    server.register("T", "U")
    wiped = server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
    assert wiped.ext_fields == {"wipeTopicCount": "2"}
    added = server.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
    assert added.ext_fields == {"addTopicCount": "2"}


# ---- topics


def topics(answer: RemotingCommand) -> list[str]:
    return java_json.loads(answer.body)["topicList"]


def test_topic_lists(server: Server) -> None:
    server.register("T", "U")
    assert topics(server.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)) == ["T", "U"]
    assert topics(server.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "C"})) == ["T", "U"]
    assert topics(server.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "D"})) == []
    system = server.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert java_json.loads(system.body) == {
        "brokerAddr": "10.0.0.1:10911",
        "topicList": ["C", "a"],
    }
    for code in (
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        assert topics(server.ask(code)) == []


def test_topic_lists_can_be_switched_off(make) -> None:
    server = make(enable_all_topic_list=False, enable_topic_list=False)
    for code in (
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        answer = server.ask(code, {"cluster": "C"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "=false" in answer.remark


def test_a_route_contains_the_order_configuration_if_enabled(make) -> None:
    for enabled in (True, False):
        server = make(order_message_enable=enabled)
        server.register("T", "U")
        server.kv.put("ORDER_TOPIC_CONFIG", "T", "a:4")
        answer = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        conf = TopicRouteData.from_bytes(answer.body).order_topic_conf
        assert conf == ("a:4" if enabled else None)
        other = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "U"})
        assert TopicRouteData.from_bytes(other.body).order_topic_conf is None


def test_routes_are_refused_during_the_start_phase_if_configured(make, clock) -> None:
    server = make(need_wait_for_service=True)
    server.processor.started()
    server.register("T", "U")
    clock.advance(44_999)
    early = server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
    assert early.code == ResponseCode.SYSTEM_ERROR
    clock.advance(1)
    assert server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).code == 0


LARGE = [f"Topic{number}" for number in range(2_000)]


def large_registration(server: Server, connection: SimpleNamespace):
    command = request(RequestCode.REGISTER_BROKER, BROKER, registration(*LARGE))
    assert len(command.body) > DECODED_AT_ONCE_BYTES
    return server.processor.register_broker(connection, command)


def test_a_large_registration_is_decoded_off_the_loop(server: Server, monkeypatch) -> None:
    threads: list[threading.Thread] = []
    decode = RegisterBrokerBody.decode

    def noting_decode(data, **fields):
        threads.append(threading.current_thread())
        return decode(data, **fields)

    monkeypatch.setattr(RegisterBrokerBody, "decode", noting_decode)

    async def main() -> RemotingCommand:
        return await large_registration(server, CHANNEL)

    assert asyncio.run(main()).code == ResponseCode.SUCCESS
    assert threads
    assert threading.main_thread() not in threads
    assert server.routes.route("Topic1999") is not None


def test_a_connection_closed_during_decoding_registers_nothing(server: Server) -> None:
    async def main() -> None:
        connection = SimpleNamespace(**vars(CHANNEL))
        answer = asyncio.ensure_future(large_registration(server, connection))
        connection.closed = True
        with pytest.raises(BrokerError, match="has closed its connection"):
            await answer

    asyncio.run(main())
    assert server.routes.route("Topic0") is None


def test_a_topic_is_deleted_and_registered(server: Server) -> None:
    server.register("T", "U")
    ext = {"topic": "T", "clusterName": "D"}
    assert server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, ext).code == 0
    assert server.routes.all_topics() == ["T", "U"]
    assert server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "T"}).code == 0
    assert server.routes.all_topics() == ["U"]
    body = TopicRouteData(
        queue_datas=[QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1, perm=6)]
    ).to_bytes()
    assert server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "N"}, body).code == 0
    assert server.routes.all_topics() == ["N", "U"]


# ---- KV and settings


def test_kv_pairs(server: Server) -> None:
    pair = {"namespace": "ns", "key": "k"}
    missing = server.ask(RequestCode.GET_KV_CONFIG, pair)
    assert missing.code == ResponseCode.QUERY_NOT_FOUND
    nothing = server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})
    assert nothing.code == ResponseCode.QUERY_NOT_FOUND
    assert server.ask(RequestCode.PUT_KV_CONFIG, {**pair, "value": "v=1"}).code == 0
    assert server.ask(RequestCode.GET_KV_CONFIG, pair).ext_fields == {"value": "v=1"}
    listed = server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, {"namespace": "ns"})
    assert listed.body == b'{"table":{"k":"v=1"}}'
    assert server.ask(RequestCode.DELETE_KV_CONFIG, pair).code == 0
    assert server.ask(RequestCode.GET_KV_CONFIG, pair).code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize("pair", [{"namespace": " ", "key": "k"}, {"namespace": "ns", "key": ""}])
def test_blank_kv_names_are_refused(server: Server, pair: dict) -> None:
    for code in (RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG):
        answer = server.ask(code, {**pair, "value": "v"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
    no_value = server.ask(RequestCode.PUT_KV_CONFIG, {"namespace": "ns", "key": "k"})
    assert no_value.code == ResponseCode.SYSTEM_ERROR


def test_settings_are_read_and_changed(server: Server) -> None:
    text = server.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    assert parse_properties(text)["enableTopicList"] == "true"
    changed = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableTopicList=false\n")
    assert changed.code == 0
    text = server.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode()
    assert parse_properties(text)["enableTopicList"] == "false"
    refused = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"kvConfigPath=/x\n")
    assert refused.code == ResponseCode.NO_PERMISSION
    broken = server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"a=\\uXYZ\n")
    assert broken.code == ResponseCode.SYSTEM_ERROR


def test_changing_requests_are_refused_for_other_hosts(server: Server, monkeypatch) -> None:
    monkeypatch.setattr(CHANNEL, "access", Access.CLIENT)
    for code in (
        RequestCode.UPDATE_NAMESRV_CONFIG,
        RequestCode.PUT_KV_CONFIG,
        RequestCode.DELETE_KV_CONFIG,
        RequestCode.WIPE_WRITE_PERM_OF_BROKER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
    ):
        assert server.ask(code).code == ResponseCode.NO_PERMISSION
    assert server.register("T", "U").code == ResponseCode.NO_PERMISSION
    monkeypatch.setattr(CHANNEL, "access", Access.MEMBER)
    assert server.register("T", "U").code == 0
    assert server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}).code == 0


def test_secrets_and_unknown_keys_are_not_shown_to_every_host(make, monkeypatch) -> None:
    server = make()
    server.settings.unknown.update({"plugin.keyPassword": "hunter2", "pluginTuning": "7"})

    def shown() -> dict[str, str]:
        return parse_properties(server.ask(RequestCode.GET_NAMESRV_CONFIG).body.decode())

    assert (shown()["plugin.keyPassword"], shown()["pluginTuning"]) == ("******", "7")
    assert "plugin.keyPassword=******  # default" in server.settings.lines()
    monkeypatch.setattr(CHANNEL, "access", Access.CLIENT)
    assert (shown()["plugin.keyPassword"], shown()["pluginTuning"]) == ("******", "******")
    assert shown()["listenPort"] == "9876"


# ---- recorded conversations


def replay(server: Server, asked: dict, answered: dict) -> tuple[RemotingCommand, RemotingCommand]:
    """Our answer to a recorded request, and the recorded one."""
    (command,) = FrameDecoder().feed(bytes.fromhex(asked["hex"]))
    (ours,) = FrameDecoder().feed(server.frame(command))
    (theirs,) = FrameDecoder().feed(bytes.fromhex(answered["hex"]))
    return ours, theirs


def envelope(answer: RemotingCommand) -> tuple:
    return answer.code, answer.opaque, answer.flag, answer.ext_fields


def meaning(body: bytes) -> object:
    """A body without the order of its lists: Java keeps them in hash order."""
    value = java_json.loads(body) if body else None
    if isinstance(value, dict) and "clusterAddrTable" in value:
        value["clusterAddrTable"] = {
            name: sorted(brokers) for name, brokers in value["clusterAddrTable"].items()
        }
    if isinstance(value, dict) and "queueDatas" in value:
        for entries in (value["queueDatas"], value["brokerDatas"]):
            entries.sort(key=lambda entry: entry["brokerName"])
    return value


def test_the_responses_to_a_recorded_broker_equal_those_of_java(server: Server, exchanges) -> None:
    """In the recording another broker was registered before: so it is in the replay."""
    other = {
        "brokerName": "broker-a",
        "brokerAddr": "127.0.0.2:40911",
        "clusterName": "DefaultCluster",
    }
    server.register("X", "Y", ext=other)
    conversation = exchanges("broker-namesrv")
    assert {asked["code"] for asked, _ in conversation} == {103, 104, 106}
    for asked, answered in conversation:
        ours, theirs = replay(server, asked, answered)
        assert envelope(ours) == envelope(theirs)
        assert meaning(ours.body) == meaning(theirs.body)
    assert list(server.routes.groups) == ["broker-a"]


def prepare(server: Server, asked: dict, answered: dict) -> None:
    """Put the tables into the state that the recorded answer shows."""
    topic = (asked["ext"] or {}).get("topic", "")
    (theirs,) = FrameDecoder().feed(bytes.fromhex(answered["hex"]))
    if answered["code"] != 0:
        server.routes.delete_topic(topic)
    elif asked["code"] == RequestCode.GET_ROUTEINFO_BY_TOPIC:
        route = TopicRouteData.from_bytes(theirs.body)
        register_all(server, route.broker_datas)
        server.routes.delete_topic(topic)
        assert server.routes.register_topic(topic, route.queue_datas)
    elif asked["code"] == RequestCode.GET_BROKER_CLUSTER_INFO:
        register_all(server, ClusterInfo.from_bytes(theirs.body).broker_addr_table.values())


def register_all(server: Server, brokers: Iterable[BrokerData]) -> None:
    for broker in brokers:
        for broker_id, address in broker.broker_addrs.items():
            ext = {
                "brokerName": broker.broker_name,
                "brokerAddr": address,
                "brokerId": str(broker_id),
                "clusterName": broker.cluster,
            }
            assert server.register("RegisteredBefore", "AsWell", ext=ext).code == 0


@pytest.mark.parametrize(
    "name",
    [
        "java-4.9.8",
        "java-5.3.3",
        "java-5.3.3-extra",
        "mqadmin-4.9.8",
        "mqadmin-5.3.3",
        "auth-5.3.3",
        "go",
        "node",
    ],
)
def test_every_recorded_request_gets_the_recorded_response(
    server: Server, exchanges, name: str
) -> None:
    conversation = exchanges(name)
    assert conversation
    for asked, answered in conversation:
        prepare(server, asked, answered)
        ours, theirs = replay(server, asked, answered)
        place = f"frame {asked['n']}, code {asked['code']}"
        assert (ours.code, ours.opaque, ours.flag) == envelope(theirs)[:3], place
        if asked["code"] == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            assert meaning(ours.body) == meaning(theirs.body), place
            if theirs.body.count(b'"brokerAddrs"') == 1:
                assert ours.body == theirs.body, place
        elif asked["code"] == RequestCode.GET_BROKER_CLUSTER_INFO:
            assert meaning(ours.body) == meaning(theirs.body), place
        elif asked["code"] == RequestCode.GET_KV_CONFIG:
            assert ours.ext_fields == theirs.ext_fields, place
        else:
            assert set(ours.ext_fields) == set(theirs.ext_fields), place
