"""Sending back, and the copy for the retry topic."""

from broker.client.instance.client_instance import MQClientInstance
from broker.client.listener.send_back import SendBack, retry_copy
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def stored(cluster: FakeCluster) -> MessageExt:
    broker = cluster.brokers["broker-a"]
    broker.store(QUEUE, b"x", encode_properties({"TAGS": "A"}))
    return decode_record(broker.records[QUEUE][0])


def run(cluster: FakeCluster, message: MessageExt, level: int = 0) -> bool:
    async def main() -> bool:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        await instance.routes.get("T")
        return await SendBack(instance, "g", 16).send(message, QUEUE, level)

    return run_virtual(main(), cluster.clock)


def test_the_broker_of_the_message_keeps_it_for_the_group() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    message = stored(cluster)
    assert run(cluster, message)
    (copy,) = cluster.brokers["broker-a"].log[1:]
    assert (copy.topic, copy.reconsume_times) == ("%RETRY%g", 1)
    assert run(cluster, message, level=-1)
    assert cluster.brokers["broker-a"].log[-1].topic == "%DLQ%g"


def test_the_client_sends_a_copy_itself_when_the_broker_refuses() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.create("%RETRY%g", queues=1)
    message = stored(cluster)
    refusing = cluster.brokers["broker-a"]
    for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
        refusing.scripts[code] = lambda command: response(
            command, ResponseCode.SYSTEM_ERROR, "scripted"
        )
    assert run(cluster, message)
    (copy,) = cluster.brokers["broker-b"].log
    assert (copy.topic, copy.body, copy.reconsume_times) == ("%RETRY%g", b"x", 1)
    assert copy.get_property("RETRY_TOPIC") == "T"
    assert copy.get_property("DELAY") == "3"


def test_without_any_broker_it_fails() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    cluster.create("%RETRY%g", queues=1)
    message = stored(cluster)
    cluster.brokers["broker-a"].kill()
    assert not run(cluster, message)


def test_without_a_maximum_the_copy_has_none_either() -> None:
    message = MessageExt("T", b"x", encode_properties({"MAX_RECONSUME_TIMES": "3"}))
    assert "MAX_RECONSUME_TIMES" not in retry_copy(message, "g", None).properties


def test_the_copy_arrives_with_the_uniq_key_of_the_message() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.create("%RETRY%g", queues=1)
    broker = cluster.brokers["broker-a"]
    broker.store(QUEUE, b"x", encode_properties({"UNIQ_KEY": "KEY"}))
    message = decode_record(broker.records[QUEUE][0])
    broker.kill()
    assert run(cluster, message)
    (copy,) = cluster.brokers["broker-b"].log
    assert copy.uniq_key == "KEY"


def test_a_message_without_uniq_key_gets_one_in_its_copy() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.create("%RETRY%g", queues=1)
    message = stored(cluster)
    cluster.brokers["broker-a"].kill()
    assert run(cluster, message)
    (copy,) = cluster.brokers["broker-b"].log
    assert copy.uniq_key


def test_the_copy_keeps_origin_and_counts_the_failure() -> None:
    properties = {
        "TAGS": "A",
        "UNIQ_KEY": "KEY",
        "TRAN_MSG": "true",
        "RETRY_TOPIC": "first",
        "ORIGIN_MESSAGE_ID": "origin",
    }
    message = MessageExt("T", b"x", encode_properties(properties), reconsume_times=2, flag=9)
    copy = retry_copy(message, "g", 16)
    assert copy.topic == "%RETRY%g"
    assert copy.flag == 9
    assert copy.properties == {
        "TAGS": "A",
        "UNIQ_KEY": "KEY",
        "RETRY_TOPIC": "first",
        "ORIGIN_MESSAGE_ID": "origin",
        "RECONSUME_TIME": "3",
        "MAX_RECONSUME_TIMES": "16",
        "DELAY": "5",
        "WAIT": "true",
    }
