"""Light message queues: pulled, committed and listed without any configuration."""

import json
from pathlib import Path

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode

LMQ = {"enableLmq": "true", "enableMultiDispatch": "true"}


@pytest.fixture
def lmq(make_desk):
    """A broker with LMQs and three messages in Orders; two of them are in %LMQ%a."""
    desk = make_desk(**LMQ)
    desk.topic("Orders", 2)
    desk.send(body=b"1", properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"})
    desk.send(body=b"2", queue_id=1, properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    desk.send(body=b"3")
    return desk


def pull(desk, topic: str, **fields):
    return desk.pull(topic, group="%LMQ%g", **fields)


def test_an_lmq_is_pulled_like_a_topic_with_one_queue(lmq, records) -> None:
    answer = pull(lmq, "%LMQ%a")
    assert [(m.topic, m.queue_id, m.body) for m in records(answer)] == [
        ("Orders", 0, b"1"),
        ("Orders", 1, b"2"),
    ]
    assert answer.ext_fields["nextBeginOffset"] == "2"
    assert pull(lmq, "%LMQ%a", queue_id=1).code == ResponseCode.INVALID_PARAMETER
    assert pull(lmq, "%LMQ%unknown").code == ResponseCode.PULL_NOT_FOUND


def test_a_waiting_pull_wakes_when_a_message_reaches_the_lmq(lmq, records, decode_frame) -> None:
    assert pull(lmq, "%LMQ%a", queue_offset=2, sysFlag=6) is None
    lmq.send(body=b"4", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    answer = decode_frame(lmq.connection.sent[-1])
    assert [m.body for m in records(answer)] == [b"4"]


def test_nothing_of_an_lmq_is_stored_in_topics_or_groups(lmq) -> None:
    pull(lmq, "%LMQ%a")
    lmq.send("%LMQ%direct", b"d")
    config = lmq.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "%LMQ%a"})
    found = json.loads(config.body_bytes())
    assert (found["topicName"], found["readQueueNums"], found["perm"]) == ("%LMQ%a", 1, 6)
    assert not [name for name in lmq.context.topics.configs if name.startswith("%LMQ%")]
    assert not [name for name in lmq.context.groups.configs if name.startswith("%LMQ%")]
    assert lmq.store.get_max_offset("%LMQ%direct", 0) == 1


def test_offsets_of_lmq_groups_are_in_their_file(lmq, tmp_path) -> None:
    ext = {"consumerGroup": "%LMQ%g", "topic": "%LMQ%a", "queueId": 0}
    assert lmq.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**ext, "commitOffset": 2}).code == 0
    plain = {**ext, "consumerGroup": "G1", "commitOffset": 1}
    lmq.pull("%LMQ%a", group="G1")
    assert lmq.ask(RequestCode.UPDATE_CONSUMER_OFFSET, plain).code == 0
    assert lmq.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext).ext_fields["offset"] == "2"
    lmq.context.files.save_progress(lmq.context)
    text = (Path(lmq.settings.store.root) / "config" / "lmqConsumerOffset.json").read_text()
    assert '"lmqOffsetTable":{\n\t\t"%LMQ%a@%LMQ%g":2\n' in text
    assert '"%LMQ%a@G1"' in text.partition('"offsetTable"')[2]


def test_cleaning_unused_topics_keeps_lmqs(lmq) -> None:
    lmq.ask(RequestCode.CLEAN_UNUSED_TOPIC)
    assert lmq.store.get_max_offset("%LMQ%a", 0) == 2


def test_without_the_setting_an_lmq_is_an_unknown_topic(desk) -> None:
    assert pull(desk, "%LMQ%a").code in (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )


def test_beyond_their_limit_messages_for_lmqs_are_refused(make_desk) -> None:
    desk = make_desk(**LMQ, maxLmqConsumeQueueNum="2")
    desk.topic("Orders")
    for number in range(3):
        properties = {"INNER_MULTI_DISPATCH": f"%LMQ%{number}"}
        assert desk.send(properties=properties).code == 0
    refused = desk.send(properties={"INNER_MULTI_DISPATCH": "%LMQ%0"})
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert refused.remark == "more than 2 light message queues"
    assert desk.send().code == 0, "other messages are not affected"
    desk.store.delete_topics(["%LMQ%1"])
    assert desk.send(properties={"INNER_MULTI_DISPATCH": "%LMQ%0"}).code == 0


def test_the_trace_topic_exists_only_if_it_is_enabled(make_desk) -> None:
    name = "RMQ_SYS_TRACE_TOPIC"
    assert name not in make_desk().context.topics
    desk = make_desk(traceTopicEnable="true")
    assert desk.context.topics.get(name).write_queue_nums == 1
    assert desk.send(name, b"trace").code == 0
    assert (
        desk.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            {
                "topic": name,
                "defaultTopic": "TBW102",
                "readQueueNums": 4,
                "writeQueueNums": 4,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "order": "false",
            },
        ).code
        == ResponseCode.INVALID_PARAMETER
    )


def test_a_repeated_name_makes_one_unit(lmq, records) -> None:
    lmq.send(body=b"4", properties={"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b,%LMQ%a"})
    lmq.send(body=b"5", properties={"INNER_MULTI_DISPATCH": "%LMQ%a"})
    found = records(pull(lmq, "%LMQ%a"))
    assert [m.body for m in found] == [b"1", b"2", b"4", b"5"]
    assert found[2].properties["INNER_MULTI_QUEUE_OFFSET"] == "2,1,2"
    assert found[3].properties["INNER_MULTI_QUEUE_OFFSET"] == "3"
