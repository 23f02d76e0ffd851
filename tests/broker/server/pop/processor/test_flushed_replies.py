"""With SYNC_FLUSH replies wait for the flush of the records that they report."""

import time

from broker.remoting.protocol.codes import RequestCode


def wait_for(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_pop_and_ack_are_answered_after_their_flush(make_desk, pop_client) -> None:
    desk = make_desk(flushDiskType="SYNC_FLUSH")
    desk.topic("Orders", 1)
    desk.send(body=b"x")
    wait_for(lambda: len(desk.connection.sent) == 1)
    desk.store.dispatch()
    client = pop_client(desk)
    assert client.pop_raw() is None
    wait_for(lambda: len(desk.connection.sent) == 2)
    assert desk.store.flushed_where >= desk.pop_service.topic.written_end
    (one,) = client.messages(desk.connection.commands[1])
    ext = {"consumerGroup": "G1", **one.ext}
    assert desk.ask(RequestCode.ACK_MESSAGE, ext) is None
    wait_for(lambda: len(desk.connection.sent) == 3)
    assert desk.connection.commands[2].code == 0


def test_with_async_flush_they_are_answered_at_once(desk, client) -> None:
    desk.send()
    (one,) = client.pop()
    assert client.ack(one).code == 0
