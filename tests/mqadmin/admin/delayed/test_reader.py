"""Queues of system topics, read from one broker without a route."""

from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.facade import MQAdmin
from tests.support.live_broker import send, until


def test_a_topic_that_the_broker_does_not_have_is_empty(
    broker: BlockingEmbeddedBroker, library: MQAdmin
) -> None:
    (target,) = library.topology.readers()
    reader = BrokerReader(library, target)
    missing = reader.queue("nosuch", 0)
    assert list(reader.messages(missing, 0)) == []
    send(broker, "T", "a")
    queue = reader.queue("T", 0)
    until(lambda: reader.bounds(queue) == (0, 1))
    assert [message.keys for message in reader.messages(queue, 0)] == [["a"]]
