import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import REQUEST_LIMITS, RESPONSE_LIMITS, load
from broker.remoting.protocol.body.consumer.consume import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
)
from broker.remoting.protocol.body.consumer.offset import (
    ConsumerOffsetSerializeWrapper,
    GetConsumerStatusBody,
    ResetOffsetBody,
)
from broker.remoting.protocol.body.namesrv.route import BrokerData, TopicList

QUEUE = MessageQueue("T1", "b-a", 3)


@pytest.mark.parametrize(
    "data",
    [
        b'{"offsetTable":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:12}}',
        b'{"offsetTable":{ { "topic" : "T1", "queueId":3,"brokerName":"b-a"} : 12 } }',
        b'{"offsetTable":{"{\\"brokerName\\":\\"b-a\\",\\"queueId\\":3,\\"topic\\":\\"T1\\"}":12}}',
        b"{'offsetTable':{{'brokerName':'b-a',queueId:3,'topic':'T1'}:\"12\",},}",
        b'{"offsetTable":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:12},/* done */}',
        b'{"offset_table":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:12}}',
    ],
)
def test_queue_keys_in_every_form_java_takes(data):
    assert ResetOffsetBody.from_bytes(data).offset_table == {QUEUE: 12}


def test_queue_keys_are_written_in_javas_form():
    assert ResetOffsetBody(offset_table={QUEUE: 12}).to_bytes() == (
        b'{"offsetTable":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:12}}'
    )


@pytest.mark.parametrize("inner", [b"{0:20,1:17}", b'{"0":20,"1":17}', b'{ 0 : "20", 1:17, }'])
def test_integer_keys_quoted_or_not(inner):
    body = ConsumerOffsetSerializeWrapper.from_bytes(b'{"offsetTable":{"T1@G1":%b}}' % inner)
    assert body.offset_table == {"T1@G1": {0: 20, 1: 17}}
    assert body.to_bytes() == b'{"offsetTable":{"T1@G1":{0:20,1:17}}}'


def test_text_that_looks_like_java_keys_is_left_alone():
    nasty = '{1:2,{"brokerName":"b","queueId":1,"topic":"t"}:3} \\" {0:'
    body = GetConsumerStatusBody(consumer_table={nasty: {MessageQueue(nasty, nasty, 1): 5}})
    assert GetConsumerStatusBody.from_bytes(body.to_bytes()) == body


def test_a_body_with_a_reference_is_resolved():
    data = (
        b'{"consumeStatsList":[{"G1":[{"consumeTps":1.5,"offsetTable":{}}]},'
        b'{"G2":[{"$ref":"$.consumeStatsList[0].G1[0]"}]}]}'
    )
    body = ConsumeStatsList.from_bytes(data)
    assert body.consume_stats_list[1]["G2"] == [ConsumeStats(consume_tps=1.5)]


def test_a_request_body_has_a_limit_and_a_response_body_a_larger_one():
    data = b'{"topicList":["' + b"x" * REQUEST_LIMITS.body_bytes + b'"]}'
    with pytest.raises(RemoteProtocolError, match="above the limit of 1048576"):
        TopicList.from_bytes(data)
    assert len(TopicList.from_bytes(data, RESPONSE_LIMITS).topic_list) == 1


def test_a_request_body_for_the_tolerant_reader_is_short():
    data = b"{'topicList':['" + b"x" * REQUEST_LIMITS.tolerant_bytes + b"']}"
    with pytest.raises(RemoteProtocolError, match="not standard JSON"):
        TopicList.from_bytes(data)
    assert len(TopicList.from_bytes(data, RESPONSE_LIMITS).topic_list) == 1
    table = b",".join(b"%d:%d" % (i, i) for i in range(10_000))  # integer keys as Java writes them
    body = ConsumerOffsetSerializeWrapper.from_bytes(b'{"offsetTable":{"T1@G1":{%b}}}' % table)
    assert len(body.offset_table["T1@G1"]) == 10_000
    with pytest.raises(RemoteProtocolError, match="above the limit of 262144"):
        ConsumerOffsetSerializeWrapper.from_bytes(b'{"offsetTable":{"T1@G1":{%b}}}' % (table * 4))


@pytest.mark.parametrize("key", ["{'topic':'" + "x" * 5000 + "'}", '{"queueId":1e999}'])
def test_an_unreadable_queue_key_is_a_protocol_error(key):
    wire = {"offsetTable": {key: 1}}
    with pytest.raises(RemoteProtocolError):
        ResetOffsetBody.from_wire(wire)


def test_unknown_fields_survive_at_every_depth():
    data = (
        b'{"consumeTps":0.0,"future":[1],"offsetTable":{{"brokerName":"b-a","queueId":3,"topic":"T1"}:'
        b'{"brokerOffset":2,"consumerOffset":1,"lastTimestamp":0,"pullOffset":1,"zz":{"y":null}}}}'
    )
    body = ConsumeStats.from_bytes(data)
    assert body.extra == {"future": [1]}
    assert body.offset_table[QUEUE].extra == {"zz": {"y": None}}
    assert ConsumeStats.from_bytes(body.to_bytes()).offset_table[QUEUE].broker_offset == 2
    assert b'"future":[1]' in body.to_bytes()
    assert b'"zz":{' in body.to_bytes()


def test_values_are_read_from_text_numbers_and_booleans():
    wrapper = OffsetWrapper.from_bytes(
        b'{"brokerOffset":"7","consumerOffset":2.0,"pullOffset":true}'
    )
    assert (wrapper.broker_offset, wrapper.consumer_offset, wrapper.pull_offset) == (7, 2, 1)
    data = BrokerData.from_bytes(b'{"enableActingMaster":"TRUE","cluster":5,"brokerName":true}')
    assert (data.enable_acting_master, data.cluster, data.broker_name) == (True, "5", "true")


@pytest.mark.parametrize("text", ["1_0", "\u0661", " 7", "7 ", "0x7", "1" * 5000, "--7"])
def test_text_is_a_number_only_where_java_reads_one(text):
    with pytest.raises(RemoteProtocolError, match="brokerOffset: an integer is expected"):
        OffsetWrapper.from_wire({"brokerOffset": text})


@pytest.mark.parametrize(("text", "number"), [("", 0), ("+7", 7), ("-7", -7), ("007", 7)])
def test_signs_and_leading_zeros_are_read_and_no_text_is_zero(text, number):
    assert OffsetWrapper.from_wire({"brokerOffset": text}).broker_offset == number


def test_null_and_absent_fields_have_the_defaults():
    body = TopicList.from_bytes(b'{"topicList":null}')
    assert body == TopicList() == TopicList.from_bytes(b"") == TopicList.from_bytes(b"{}")
    assert body.to_bytes() == b'{"topicList":[]}'


def test_names_match_as_fastjson_matches_them():
    data = BrokerData.from_bytes(
        b'{"broker_name":"b","ENABLEACTINGMASTER":true,"Broker-Addrs":{0:"a"}}'
    )
    assert (data.broker_name, data.enable_acting_master, data.broker_addrs) == ("b", True, {0: "a"})


def test_large_integers_stay_exact():
    body = OffsetWrapper.from_bytes(b'{"brokerOffset":9223372036854775807}')
    assert body.broker_offset == 2**63 - 1
    assert b"9223372036854775807" in body.to_bytes()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[]", "ConsumeStats: an object is expected"),
        (b"12", "ConsumeStats: an object is expected"),
        (b'{"offsetTable":[]}', "ConsumeStats.offsetTable: an object is expected"),
        (b'{"offsetTable":{"x":{}}}', "ConsumeStats.offsetTable: "),
        (
            b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"brokerOffset":"x"}}}',
            "ConsumeStats.offsetTable: OffsetWrapper.brokerOffset: an integer is expected, not 'x'",
        ),
        (
            b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"brokerOffset":1e300}}}',
            "a 64-bit integer is expected",
        ),
        (b'{"consumeTps":"fast"}', "ConsumeStats.consumeTps: a number is expected"),
        (b'{"consumeTps":', "JSON"),
    ],
)
def test_an_unreadable_body_names_class_and_field(data, reason):
    with pytest.raises(RemoteProtocolError) as caught:
        ConsumeStats.from_bytes(data)
    assert reason in caught.value.message


def test_depth_is_bounded():
    with pytest.raises(RemoteProtocolError):
        ConsumeStats.from_bytes(b'{"x":' * 100_000)
    with pytest.raises(RemoteProtocolError):
        load(b"{" * 100_000)


def test_a_thousand_queues_are_read_and_written_back():
    table = {
        MessageQueue(f't"{n}', f"b-{n % 8}", n): OffsetWrapper(broker_offset=n) for n in range(1000)
    }
    body = ConsumeStats(offset_table=table, consume_tps=1e10)
    assert b'"consumeTps":1.0E10' in body.to_bytes()
    assert ConsumeStats.from_bytes(body.to_bytes()) == body
