"""Sending: queue choice, retries, request fields."""

import zlib

import pytest

from broker.common.clock import ManualClock
from broker.common.message_queue import MessageQueue
from broker.common.topic import TBW102
from broker.errors import BrokerError, ClientError, ConnectError
from broker.message.message import Message
from broker.message.message_id import parse_uniq_key
from broker.message.properties import decode_properties
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import response
from broker.remoting.protocol.header.send import decode_send_header
from mqadmin.admin.message.message_sender import ATTEMPTS, MessageSender


def ok(address, command):
    header = decode_send_header(command)
    ext = {"msgId": "ID", "queueId": str(header.queue_id), "queueOffset": "5"}
    return response(command, ext=ext)


@pytest.fixture
def sending(scripted):
    scripted.scripts[310] = ok
    scripted.route("t", "a", "b")
    return scripted


@pytest.fixture
def producer(sending, caller):
    return MessageSender(caller, clock=ManualClock())


def headers(scripted):
    return [decode_send_header(command) for _, command in scripted.calls if command.code == 310]


def test_transferred_fields(sending, producer) -> None:
    result = producer.send(Message("t", b"hi", tags="T", keys=["a", "b"], flag=9))
    (header,) = headers(sending)
    properties = decode_properties(header.properties)
    assert properties["KEYS"] == "a b"
    assert properties["TAGS"] == "T"
    assert properties["UNIQ_KEY"] == result.msg_id
    assert (header.default_topic, header.default_topic_queue_nums) == (TBW102, 4)
    assert (header.flag, header.sys_flag, header.batch) == (9, 0, False)
    assert (result.send_status, result.queue_offset, result.offset_msg_id) == ("SEND_OK", 5, "ID")
    assert sending.calls[-1][1].body == b"hi"


def test_queues_take_turns(sending, producer) -> None:
    for _ in range(8):
        producer.send(Message("t", b"x"))
    places = [(address, command.ext_fields["e"]) for address, command in sending.calls[1:]]
    assert places[:4] == places[4:]
    assert len(set(places)) == 4


def queues_of(scripted, topic: str) -> list[tuple[str, int]]:
    return [
        (address, decode_send_header(command).queue_id)
        for address, command in scripted.calls
        if command.code == 310 and decode_send_header(command).topic == topic
    ]


def test_each_topic_has_its_own_turn(sending, producer) -> None:
    """Messages sent to two topics alternately reach every queue of both."""
    sending.route("u", "a", "b")
    for _ in range(4):
        producer.send(Message("t", b"x"))
        producer.send(Message("u", b"x"))
    assert len(set(queues_of(sending, "t"))) == 4
    assert len(set(queues_of(sending, "u"))) == 4


def test_first_queue_of_a_topic_is_random(sending, caller) -> None:
    """A fixed start would put every command that sends one message into queue 0."""
    for _ in range(100):
        MessageSender(caller, clock=ManualClock()).send(Message("t", b"x"))
    assert len(set(queues_of(sending, "t"))) > 1


def test_unique_keys_are_unique_and_readable(producer) -> None:
    keys = {producer.send(Message("t", b"x")).msg_id for _ in range(5)}
    assert len(keys) == 5
    assert {parse_uniq_key(key).counter for key in keys} == {1, 2, 3, 4, 5}


def test_a_given_unique_key_stays(sending, producer) -> None:
    assert producer.send(Message("t", b"x", properties={"UNIQ_KEY": "mine"})).msg_id == "mine"


def test_another_broker_is_tried(sending, producer) -> None:
    sending.scripts[310] = lambda a, c: ConnectError("down", address=a) if a == "a:1" else ok(a, c)
    for _ in range(4):
        assert producer.send(Message("t", b"x")).message_queue.broker_name == "b"


def test_the_number_of_attempts_is_bounded(sending, producer) -> None:
    sending.scripts[310] = lambda a, c: response(c, ResponseCode.SYSTEM_BUSY, "busy")
    with pytest.raises(BrokerError, match="busy"):
        producer.send(Message("t", b"x"))
    assert len(sending.asked(310)) == ATTEMPTS


def test_a_final_refusal_is_not_retried(sending, producer) -> None:
    sending.scripts[310] = lambda a, c: response(c, ResponseCode.MESSAGE_ILLEGAL, "too long")
    with pytest.raises(BrokerError, match="too long"):
        producer.send(Message("t", b"x"))
    assert len(sending.asked(310)) == 1


def test_an_explicit_queue_is_tried_once(sending, producer) -> None:
    sending.scripts[310] = lambda a, c: ConnectError("down", address=a)
    with pytest.raises(ConnectError):
        producer.send(Message("t", b"x"), MessageQueue("t", "b", 1))
    assert sending.asked(310) == ["b:1"]


@pytest.mark.parametrize(
    ("code", "status"),
    [(10, "FLUSH_DISK_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE"), (12, "FLUSH_SLAVE_TIMEOUT")],
)
def test_stored_with_less_safety_is_not_an_error(sending, producer, code, status) -> None:
    def stored(address, command):
        answer = ok(address, command)
        answer.code = code
        return answer

    sending.scripts[310] = stored
    assert producer.send(Message("t", b"x")).send_status == status


def test_big_bodies_are_compressed(sending, producer) -> None:
    producer.send(Message("t", b"y" * 5_000))
    (header,) = headers(sending)
    assert header.sys_flag == 0x301
    assert zlib.decompress(sending.calls[-1][1].body) == b"y" * 5_000


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("a b", b"x"), "illegal"),
        (Message("t", b""), "needs a body"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "reserved"),
    ],
)
def test_bad_messages_never_travel(sending, producer, message, reason) -> None:
    with pytest.raises(ClientError, match=reason):
        producer.send(message)
    assert not sending.calls


def test_a_body_above_the_limit(producer, rng) -> None:
    with pytest.raises(ClientError, match="the limit is 4194304"):
        producer.send(Message("t", rng.randbytes(5 * 1024 * 1024)))


def test_an_unknown_topic_is_not_created(sending, producer) -> None:
    sending.route(TBW102, "a", queues=8)
    with pytest.raises(ClientError, match="does not exist"):
        producer.send(Message("new", b"x"))


def test_an_unknown_topic_is_created_when_asked(sending, caller) -> None:
    sending.route(TBW102, "a", queues=8)
    producer = MessageSender(caller, create=True, clock=ManualClock())
    ids = {producer.send(Message("new", b"x")).message_queue.queue_id for _ in range(8)}
    assert ids == {0, 1, 2, 3}
    with pytest.raises(ClientError, match="does not exist"):
        sending.routes.clear()
        producer.routes.forget(TBW102)
        producer.send(Message("newer", b"x"))


def test_a_topic_without_write_permission_is_refused(sending, producer) -> None:
    sending.route("ro", "a", perm=4)
    with pytest.raises(ClientError, match="no queue that can be written"):
        producer.send(Message("ro", b"x"))


def test_a_broker_without_master(sending, producer) -> None:
    with pytest.raises(ClientError, match="has no master"):
        producer.send(Message("t", b"x"), MessageQueue("t", "zz", 0))
