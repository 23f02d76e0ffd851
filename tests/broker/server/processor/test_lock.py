"""Queue locks over the wire."""

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer.lock import LockBatchRequestBody, LockBatchResponseBody
from broker.remoting.protocol.codes import RequestCode
from broker.server import slices
from broker.server.processor import lock

A, B = (MessageQueue("T", "broker-a", number) for number in range(2))


def ask(desk, code: int, client: str, *queues: MessageQueue):
    body = LockBatchRequestBody(consumer_group="G", client_id=client, mq_set=list(queues))
    answer = desk.ask(code, body=body.to_bytes())
    assert answer.code == 0
    return LockBatchResponseBody.from_bytes(answer.body_bytes()).lock_ok_mq_set


def test_lock_renew_give_up(desk) -> None:
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c1", A, B) == [A, B]
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c2", A) == []
    ask(desk, RequestCode.UNLOCK_BATCH_MQ, "c1", A)
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c2", A, B) == [A]


def test_lock_ends_after_a_minute(desk) -> None:
    ask(desk, RequestCode.LOCK_BATCH_MQ, "c1", A)
    desk.clock.advance(60_001)
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c2", A) == [A]


def test_many_queues_are_locked_in_slices(desk, monkeypatch) -> None:
    monkeypatch.setattr(lock, "QUEUES_PER_PART", 2)
    monkeypatch.setattr(lock, "PARTS_PER_SLICE", 2)
    pauses = []

    async def noting_sleep(_) -> None:
        pauses.append(1)

    monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
    queues = [MessageQueue("T", "broker-a", number) for number in range(9)]
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c1", *queues) == queues
    assert len(pauses) == 2
    ask(desk, RequestCode.UNLOCK_BATCH_MQ, "c1", *queues)
    assert len(pauses) == 4
    assert ask(desk, RequestCode.LOCK_BATCH_MQ, "c2", *queues) == queues
