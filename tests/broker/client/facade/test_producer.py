"""The blocking producer over real sockets, on both event loops."""

import threading
from collections.abc import Iterator, Sequence

import pytest

from broker.client import (
    ClientConfig,
    LocalTransactionState,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    ProducerConfig,
    TransactionProducer,
)
from broker.errors import ClientError
from broker.server.standalone import BlockingEmbeddedBroker

SMALL = {"mappedFileSizeCommitLog": "16777216", "maxHashSlotNum": "500", "maxIndexNum": "2000"}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BlockingEmbeddedBroker(str(tmp_path_factory.mktemp("store")), SMALL) as both:
        yield both.namesrv_address


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_all_manners_of_sending(namesrv: str, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETMQ_LOOP", loop)
    with Producer("pg", namesrv) as producer:
        first = producer.send(Message("T", b"x" * 5_000))
        queue = first.message_queue
        second = producer.send(Message("T", b"x"), queue=queue)
        assert second.queue_offset == first.queue_offset + 1
        batch = producer.send_batch([Message("T", b"a"), Message("T", b"b")], queue=queue)
        assert batch.queue_offset == first.queue_offset + 2
        futures = [producer.send_async(Message("T", b"y"), queue=queue) for _ in range(100)]
        offsets = sorted(future.result(30).queue_offset for future in futures)
        assert offsets == list(range(first.queue_offset + 4, first.queue_offset + 104))
        producer.send_oneway(Message("T", b"z"), queue=queue)
        assert producer.send(Message("T", b"x"), queue=queue).queue_offset == offsets[-1] + 2
        assert len(producer.fetch_publish_queues("T")) == 4
        assert producer.faults.items() == []


def test_threads_share_a_producer(namesrv: str) -> None:
    with Producer("pg", ClientConfig(namesrv=namesrv)) as producer:
        ids: list[str] = []

        def send() -> None:
            for _ in range(50):
                ids.append(producer.send(Message("T", b"x")).msg_id)

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(ids)) == 200


def test_a_future_may_be_cancelled(namesrv: str, caplog: pytest.LogCaptureFixture) -> None:
    cancelled = threading.Event()

    def select(queues: Sequence[MessageQueue]) -> MessageQueue:
        cancelled.wait(30)
        return queues[0]

    with Producer("pg", namesrv) as producer:
        valid = producer.send_async(Message("T", b"x"), selector=select)
        invalid = producer.send_async(Message("T", b""))
        assert valid.cancel()
        assert invalid.cancel()
        cancelled.set()
        assert producer.send(Message("T", b"y")).msg_id
    assert [one for one in caplog.records if one.name == "asyncio"] == []
    assert [one for one in caplog.records if one.name == "concurrent.futures"] == []


def test_errors_are_raised_or_in_the_future(namesrv: str) -> None:
    config = ProducerConfig(create_topic_key="")
    with Producer("pg", namesrv, config) as producer:
        with pytest.raises(ClientError, match="does not exist"):
            producer.send(Message("Unknown", b"x"))
        invalid = producer.send_async(Message("T", b""))
        with pytest.raises(ClientError, match="body"):
            invalid.result(30)
        late = producer.send_async(Message("Unknown", b"x"))
        with pytest.raises(ClientError, match="does not exist"):
            late.result(30)
        with pytest.raises(ClientError, match="recall handle"):
            producer.recall("T", "no handle")
        with pytest.raises(ClientError, match="selector"):
            producer.send(Message("T", b"x"), selector=lambda _: MessageQueue("T", "b", 0))


def test_a_failed_start_leaves_nothing_running() -> None:
    producer = Producer("bad group", "127.0.0.1:1")
    with pytest.raises(ClientError, match="producer group"):
        producer.start()
    assert "rocketmq-client" not in {thread.name for thread in threading.enumerate()}


def test_a_message_of_wrong_types_is_refused_in_each_manner_of_sending(namesrv: str) -> None:
    text = Message("T", "text")  # type: ignore[arg-type]
    number = Message("T", b"x", tags=42)  # type: ignore[arg-type]
    nowhere = Message(42, b"x")  # type: ignore[arg-type]
    client = ClientConfig(namesrv=namesrv, namespace="prod")
    for message, reason in (
        (text, "topic T: the body is a str"),
        (number, "topic T: property 'TAGS' is 42"),
        (nowhere, "topic 42 is not text"),
    ):
        with TransactionProducer("tg", client, Commits()) as producer:
            for send in (
                producer.send,
                producer.send_oneway,
                producer.send_in_transaction,
                lambda one: producer.send_batch([one]),
                lambda one: producer.send_async(one).result(30),
                lambda one: producer.request(one, timeout_ms=30_000),
            ):
                with pytest.raises(ClientError, match=reason):
                    send(message)
            assert producer.send(Message("T", b"x")).queue_offset >= 0


class Commits:
    """A transaction listener that commits."""

    def execute_local_transaction(
        self, message: Message, argument: object
    ) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE
