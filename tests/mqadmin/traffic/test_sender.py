import threading
from collections.abc import Callable
from typing import Any

import pytest

from broker.client import ClientConfig, Message, MessageQueue, SendResult, SendStatus
from broker.errors import ClientError
from mqadmin.traffic.options import SenderConfig
from mqadmin.traffic.outgoing import Outgoing
from mqadmin.traffic.sender import BATCH_BYTES, Outcome, Sender, batches, parts


def one(line: int, topic: str = "T", body: bytes = b"x", order: str | None = None) -> Outgoing:
    return Outgoing(line, b"", Message(topic, body), order)


def sent(sender: Sender, group: list[Outgoing]) -> list[Outcome]:
    sender.submit(group)
    assert sender.wait(60)
    return sender.outcomes()


def test_a_batch_has_one_topic_and_bounded_bytes() -> None:
    group = [one(1), one(2, "U"), one(3), one(4), one(5, body=b"x" * BATCH_BYTES), one(6)]
    found = [[item.line for item in batch] for batch in batches(group, 2)]
    assert found == [[1, 3], [2], [4], [5], [6]]


def test_a_delayed_message_is_not_put_into_a_batch() -> None:
    delayed = Outgoing(2, b"", Message("T", b"x", properties={"DELAY": "1"}))
    assert [len(batch) for batch in batches([one(1), delayed, one(3)], 8)] == [2, 1]


def test_the_parts_of_a_batch_have_their_own_ids_and_offsets() -> None:
    result = SendResult(
        send_status=SendStatus.SEND_OK,
        msg_id="a,b",
        offset_msg_id="1,2",
        message_queue=MessageQueue("T", "b", 0),
        queue_offset=7,
    )
    assert [(part.msg_id, part.offset_msg_id, part.queue_offset) for part in parts(result)] == [
        ("a", "1", 7),
        ("b", "2", 8),
    ]


@pytest.mark.parametrize("options", [{}, {"batch": 8}, {"ordered": True}])
def test_every_message_has_one_outcome(
    client: ClientConfig, new_topic: Callable[..., str], options: dict[str, Any]
) -> None:
    topic = new_topic("SenderOutcomes" + "".join(options))
    with Sender(client, SenderConfig(**options)) as sender:
        sender.check_topic(topic)
        found = sent(sender, [one(line, topic, order=str(line % 5)) for line in range(100)])
    assert sorted(outcome.sent.line for outcome in found) == list(range(100))
    assert all(outcome.result is not None for outcome in found)
    assert sender.open_count == 0


def test_messages_of_one_order_are_in_one_queue_in_order(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("SenderOrdered")
    with Sender(client, SenderConfig(ordered=True, batch=7)) as sender:
        sender.check_topic(topic)
        found = sent(sender, [one(line, topic, order=f"o{line % 6}") for line in range(240)])
    places: dict[str, list[tuple[str, int, int]]] = {}
    for outcome in sorted(found, key=lambda outcome: outcome.sent.line):
        assert outcome.result is not None
        queue = outcome.result.message_queue
        place = (queue.broker_name, queue.queue_id, outcome.result.queue_offset)
        places.setdefault(outcome.sent.order or "", []).append(place)
    assert len(places) == 6
    for of_order in places.values():
        assert len({place[:2] for place in of_order}) == 1
        assert of_order == sorted(of_order)


def test_after_a_failure_nothing_ordered_is_sent(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("SenderStops", queues=1)
    with Sender(client, SenderConfig(ordered=True)) as sender:
        sender.check_topic(topic)
        group = [one(1, topic, order="a"), one(2, topic, b"", "a"), one(3, topic, order="a")]
        found = {outcome.sent.line: outcome for outcome in sent(sender, group)}
    assert found[1].result is not None
    assert found[2].error is not None
    assert (found[3].result, found[3].error) == (None, None)


def test_one_invalid_message_of_a_batch_fails_alone(
    client: ClientConfig, new_topic: Callable[..., str]
) -> None:
    topic = new_topic("SenderInvalid")
    with Sender(client, SenderConfig(batch=8)) as sender:
        found = sent(sender, [one(1, topic), one(2, topic, b""), one(3, topic)])
    assert [outcome.sent.line for outcome in found if outcome.error is not None] == [2]


def test_a_topic_that_does_not_exist_is_refused(client: ClientConfig) -> None:
    with Sender(client, SenderConfig()) as sender, pytest.raises(ClientError, match="not exist"):
        sender.check_topic("NoSuchTopic")


def test_an_unknown_topic_may_be_created_by_the_broker(client: ClientConfig) -> None:
    with Sender(client, SenderConfig(create=True)) as sender:
        assert sender.check_topic("SenderCreates")
        assert sent(sender, [one(1, "SenderCreates")])[0].result is not None


def test_the_bytes_without_an_outcome_are_bounded(client: ClientConfig) -> None:
    sender = Sender(client, SenderConfig(max_bytes=10_000))
    big = [one(1, body=b"x" * 9_000)]
    sender.wait_capacity([one(0, body=b"x" * 50_000)])  # alone it is admitted
    admitted_before = one(9, body=b"x" * (5_000 - 1_024))
    sender.admit([admitted_before])
    admitted = threading.Event()

    def wait() -> None:
        sender.wait_capacity(big)
        admitted.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not admitted.wait(0.05)
    sender.finish([Outcome(admitted_before)])
    assert admitted.wait(10)
    thread.join()
