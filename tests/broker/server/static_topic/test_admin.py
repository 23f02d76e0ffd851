"""UPDATE_AND_CREATE_STATIC_TOPIC and the other requests that show a mapping."""

import json

from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.registration import Registrar
from tests.broker.server.static_topic.conftest import TOPIC, mapping, segment


def config_of(desk, **fields: str) -> TopicConfigAndQueueMapping:
    answer = desk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC, **fields})
    return TopicConfigAndQueueMapping.from_bytes(answer.body_bytes())


def test_topic_and_mapping_are_stored_and_announced(desk, make_static) -> None:
    detail = mapping(segment(0, "broker-a"))
    assert make_static(detail).code == ResponseCode.SUCCESS
    assert desk.announced == [[TOPIC]]
    assert desk.context.topics.get(TOPIC).read_queue_nums == 2
    assert config_of(desk, lo="true").mapping_detail == detail
    assert config_of(desk).mapping_detail is None


def test_a_mapping_that_is_not_acceptable_changes_nothing(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a"), epoch=2000))
    answer = make_static(mapping(segment(0, "broker-a"), epoch=1000))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "small epoch" in answer.remark
    assert desk.context.mappings.get(TOPIC).epoch == 2000
    assert make_static(mapping(segment(0, "broker-a")), force=True).code == 0


def test_the_names_of_topic_and_mapping_are_equal(desk, make_static) -> None:
    wire = mapping(segment(0, "broker-a")).to_wire()
    detail = type(mapping()).from_wire({**wire, "topic": "Other"})
    assert make_static(detail).code == ResponseCode.INVALID_PARAMETER
    assert desk.context.topics.get(TOPIC) is None


def test_a_registration_contains_the_mapping_without_segments(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a")))
    registrar = Registrar(desk.context, desk.route_client)
    body = registrar.body([desk.context.topics.get(TOPIC), desk.topic("Orders")])
    text = body.decode().replace("{0:1}", '{"0":1}')
    table = json.loads(text)["topicConfigSerializeWrapper"]["topicQueueMappingInfoMap"]
    assert list(table) == [TOPIC]
    assert table[TOPIC]["currIdMap"] == {"0": 1}
    assert "hostedQueues" not in table[TOPIC]


def test_a_deleted_topic_loses_its_mapping(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a")))
    assert desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC}).code == 0
    assert desk.context.mappings.get(TOPIC) is None
