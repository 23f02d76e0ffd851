"""With SYNC_FLUSH replies wait for the flush of the records that they report."""

from broker.remoting.protocol.codes import RequestCode


def test_pop_and_ack_are_answered_after_their_flush(make_desk, pop_client) -> None:
    desk = make_desk(flushDiskType="SYNC_FLUSH")
    desk.topic("Orders", 1)
    desk.send(body=b"x")
    assert len(desk.connection.sent) == 1
    desk.waiting_flushes = []
    client = pop_client(desk)
    assert client.pop_raw() is None
    assert len(desk.connection.sent) == 1
    assert desk.store.flushed_where < desk.pop_service.topic.written_end
    desk.end_flushes()
    assert desk.store.flushed_where >= desk.pop_service.topic.written_end
    (one,) = client.messages(desk.connection.commands[-1])
    ext = {"consumerGroup": "G1", **one.ext}
    assert desk.ask(RequestCode.ACK_MESSAGE, ext) is None
    assert len(desk.connection.sent) == 2
    desk.end_flushes()
    assert len(desk.connection.sent) == 3
    assert desk.connection.commands[-1].code == 0


def test_with_async_flush_they_are_answered_at_once(desk, client) -> None:
    desk.send()
    (one,) = client.pop()
    assert client.ack(one).code == 0
