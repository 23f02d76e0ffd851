"""Offset tables: keys that are queues, keys that are unquoted integers."""

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.offset import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from broker.remoting.protocol.body.version import DataVersion

MQ = b'{"brokerName":"b-a","queueId":0,"topic":"T1"}'
QUEUE = MessageQueue("T1", "b-a", 0)


def test_a_reset_is_keyed_by_queue_objects() -> None:
    body = b'{"offsetTable":{' + MQ + b":12}}"
    assert ResetOffsetBody.from_bytes(body) == ResetOffsetBody(offset_table={QUEUE: 12})
    assert ResetOffsetBody(offset_table={QUEUE: 12}).to_bytes() == body


def test_a_reset_for_cpp_clients_is_a_list() -> None:
    body = b'{"offsetTable":[{"brokerName":"b-a","offset":12,"queueId":0,"topic":"T1"}]}'
    entry = MessageQueueForC(topic="T1", broker_name="b-a", queue_id=0, offset=12)
    assert ResetOffsetBodyForC.from_bytes(body).offset_table == [entry]
    assert ResetOffsetBodyForC(offset_table=[entry]).to_bytes() == body


def test_a_status_is_keyed_by_queue_or_by_client_and_queue() -> None:
    body = b'{"consumerTable":{"c1":{' + MQ + b':20}},"messageQueueTable":{' + MQ + b":7}}"
    status = GetConsumerStatusBody.from_bytes(body)
    assert status.consumer_table == {"c1": {QUEUE: 20}}
    assert status.message_queue_table == {QUEUE: 7}
    assert status.to_bytes() == body


def test_offsets_of_a_slave_are_keyed_by_topic_group_and_unquoted_queue_id() -> None:
    body = b'{"offsetTable":{"T1@G1":{0:20,10:3,2:17}}}'
    wrapper = ConsumerOffsetSerializeWrapper.from_bytes(body)
    assert wrapper.offset_table == {"T1@G1": {0: 20, 10: 3, 2: 17}}
    assert wrapper.data_version is None
    assert ConsumerOffsetSerializeWrapper.from_bytes(wrapper.to_bytes()) == wrapper


def test_the_version_that_5_x_slaves_need_is_sent_if_set() -> None:
    wrapper = DelayOffsetSerializeWrapper(
        offset_table={1: 10, 3: 25}, data_version=DataVersion(counter=3, timestamp=9)
    )
    assert wrapper.to_bytes() == (
        b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":9},"offsetTable":{1:10,3:25}}'
    )
