"""The blocking simple consumer: the parts that need no POP of the broker."""

import threading

import pytest

from broker.client import SimpleConsumer
from broker.errors import ClientError, RemotingError
from broker.message.message import MessageExt


def test_a_failed_start_leaves_nothing_running() -> None:
    consumer = SimpleConsumer("bad group", "127.0.0.1:1")
    with pytest.raises(ClientError, match="consumer group"):
        consumer.start()
    assert "rocketmq-client" not in {thread.name for thread in threading.enumerate()}


def test_without_servers_it_starts_and_receiving_fails() -> None:
    """A start must not depend on one name server: it may be started later."""
    consumer = SimpleConsumer("g", "127.0.0.1:1")
    consumer.subscribe("T")
    consumer.subscribe("U")
    consumer.unsubscribe("U")
    with consumer:
        with pytest.raises(RemotingError):
            consumer.receive()
        with pytest.raises(ClientError, match="receipt handle"):
            consumer.ack(MessageExt("T", b"x"))
        with pytest.raises(ClientError, match="receipt handle"):
            consumer.change_invisible_duration(MessageExt("T", b"x"), 1)
