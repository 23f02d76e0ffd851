"""PopCollector: limits, offset strings, retried records under the normal topic."""

from broker.message.receipt_handle import ReceiptHandle, decode_handle
from broker.message.record import scan_records
from broker.remoting.protocol.command import request
from broker.remoting.protocol.framing import FrameDecoder
from broker.server.pop.processor.collector import PopCollector, message_offsets


def collector(limit=32, limit_bytes=1 << 20) -> PopCollector:
    return PopCollector(1_000, 60_000, 3, (limit, limit_bytes))


def decoded(data: bytes):
    (command,) = FrameDecoder().feed(data)
    return command


def test_queue_offsets_are_those_of_the_records(desk) -> None:
    desk.topic("Orders", 1)
    for number in range(5):
        desk.send(body=b"x" * (number + 1), properties={"TAGS": "AB"[number % 2]})
    everything = desk.store.get_message("Orders", 0, 0)
    assert message_offsets(everything) == [0, 1, 2, 3, 4]
    some = desk.store.get_message("Orders", 0, 0, matcher=lambda code: code == ord("A"))
    assert message_offsets(some) == [0, 2, 4]


def test_it_is_full_at_the_number_or_the_bytes(desk) -> None:
    desk.topic("Orders", 1)
    desk.send()
    desk.send()
    result = desk.store.get_message("Orders", 0, 0)
    for one in (collector(limit=2), collector(limit_bytes=100)):
        assert not one.full
        one.add("0", 0, 0, result)
        assert one.full
    assert not collector(limit=3).full


def test_the_reply_names_every_queue(desk) -> None:
    desk.topic("Orders", 2)
    for queue_id in (0, 1):
        desk.send(queue_id=queue_id)
    it = collector()
    for queue_id in (0, 1):
        it.add("0", queue_id, 0, desk.store.get_message("Orders", queue_id, 0))
    it.rest = 7
    answer = decoded(it.reply(request(0), 0, "FOUND"))
    assert answer.ext_fields == {
        "invisibleTime": "60000",
        "popTime": "1000",
        "reviveQid": "3",
        "restNum": "7",
        "startOffsetInfo": "0 0 0;0 1 0",
        "msgOffsetInfo": "0 0 0;0 1 0",
    }
    assert len(list(scan_records(answer.body_bytes()))) == 2


def test_without_success_the_body_is_empty(desk) -> None:
    desk.topic("Orders", 1)
    desk.send()
    it = collector()
    it.add("0", 0, 0, desk.store.get_message("Orders", 0, 0))
    assert decoded(it.reply(request(0), 210, "NO_MESSAGE_IN_QUEUE")).body_bytes() == b""


def test_retried_records_show_the_topic_and_carry_their_handle(desk) -> None:
    topic = "%RETRY%G1_" + "T" * 150
    desk.topic(topic, 1)
    for number in range(2):
        desk.send(topic, body=b"%d" % number)
    it = collector()
    handle = ReceiptHandle(0, 1_000, 60_000, 3, "1", "broker-a", 0)
    it.add_retried(handle, "Orders", desk.store.get_message(topic, 0, 0))
    answer = decoded(it.reply(request(0), 0, "FOUND"))
    found = list(scan_records(answer.body_bytes(), check_crc=True))
    assert [message.topic for message in found] == ["Orders"] * 2
    handles = [decode_handle(message.get_property("POP_CK")) for message in found]
    assert handles == [handle._replace(queue_offset=number) for number in range(2)]
