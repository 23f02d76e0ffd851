"""The blocking simple consumer, without a broker and with a real one."""

import threading
import time
from pathlib import Path

import pytest

from broker.client import Message, Producer, SimpleConsumer
from broker.errors import ClientError, RemotingError
from broker.message.message import MessageExt
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker


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


def test_a_message_never_acknowledged_ends_in_the_dead_letters_of_its_group(tmp_path: Path) -> None:
    """``retryMaxTimes`` 1 is two deliveries; the third receive moves the message."""
    settings = {
        "mappedFileSizeCommitLog": "1048576",
        "maxHashSlotNum": "500",
        "maxIndexNum": "2000",
    }
    with BlockingEmbeddedBroker(str(tmp_path), settings) as both:
        group = b'{"groupName":"gs","retryMaxTimes":1}'
        with BlockingClient() as admin:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            assert admin.call(both.address, request(code, body=group)).code == 0
        with Producer("pg", both.namesrv_address) as producer:
            producer.send(Message("TS", b"poison"))
        consumer = SimpleConsumer("gs", both.namesrv_address)
        consumer.subscribe("TS")
        repair = SimpleConsumer("repair", both.namesrv_address)
        seen = []
        with consumer, repair:
            for _ in range(2):
                (message,) = consumer.receive(invisible_ms=1_000, wait_ms=30_000)
                seen.append(message.reconsume_times)
            repair.subscribe("%DLQ%gs")
            dead: list[MessageExt] = []
            limit_s = time.monotonic() + 60
            while not dead and time.monotonic() < limit_s:
                assert consumer.receive(invisible_ms=1_000, wait_ms=5_000) == []
                try:
                    dead = repair.receive(wait_ms=100)
                except ClientError:  # the topic exists from the first dead letter on
                    continue
        assert seen == [0, 1]
        assert [one.body for one in dead] == [b"poison"]
