"""MessageSender and QueueReader against our own broker, over real sockets."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.message.message import Message
from broker.remoting.blocking import BlockingClient
from broker.remoting.rpc.caller import Caller
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.message.message_sender import MessageSender
from mqadmin.admin.message.queue_reader import NO_NEW_MESSAGE, OFFSET_ILLEGAL, QueueReader

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both


@pytest.fixture
def caller(embedded):
    made = Caller([embedded.namesrv_address], BlockingClient(timeout_ms=10_000))
    yield made
    made.close()


def test_sent_messages_are_pulled_in_order(caller) -> None:
    producer = MessageSender(caller, create=True)
    sent = [
        producer.send(Message("t", b"%d" % number, tags="AB"[number % 2])) for number in range(40)
    ]
    producer.routes.forget("t")
    consumer = QueueReader(caller)
    queues = consumer.routes.get("t").subscribe_queues()
    assert len(queues) == 4
    ends = consumer.max_offsets(queues)
    assert sum(ends) == 40
    pulled = [message for queue in queues for message in consumer.scan(queue, 0)]
    assert {message.uniq_key for message in pulled} == {one.msg_id for one in sent}
    for queue, end in zip(queues, ends, strict=True):
        offsets = [message.queue_offset for message in consumer.scan(queue, 0)]
        assert offsets == list(range(end))
    only_a = [message for queue in queues for message in consumer.scan(queue, 0, tags="A")]
    assert {message.tags for message in only_a} == {"A"}
    assert len(only_a) == 20


def test_the_edges_of_a_queue(caller) -> None:
    producer = MessageSender(caller, create=True)
    queue = producer.send(Message("edges", b"x")).message_queue
    consumer = QueueReader(caller)
    assert consumer.pull(queue, 1).status == NO_NEW_MESSAGE
    beyond = consumer.pull(queue, 9)
    assert (beyond.status, beyond.next_begin_offset) == (OFFSET_ILLEGAL, 1)
    assert consumer.search_offsets([queue], 0) == [0]
    assert consumer.min_offsets([MessageQueue("edges", queue.broker_name, 0)]) == [0]


def test_a_suspended_pull_ends_with_the_arrival(caller, embedded) -> None:
    """The broker answers as soon as a message comes, not at the end of the wait."""
    producer = MessageSender(caller, create=True)
    queue = producer.send(Message("held", b"first")).message_queue
    consumer = QueueReader(caller)
    second = Caller([embedded.namesrv_address], BlockingClient(timeout_ms=10_000))
    try:
        address, pull = consumer.pull_request(queue, 1, suspend_ms=8_000)
        other = MessageSender(second, routes=producer.routes)
        # the suspended pull goes out first; the message after it on the same connection
        send = other.request(Message("held", b"second"), queue)
        answers = caller.call_all([(address, pull), send], accept=(0,))
        assert [answer.code for answer in answers] == [0, 0]
        assert answers[0].header.next_begin_offset == 2
    finally:
        second.close()
