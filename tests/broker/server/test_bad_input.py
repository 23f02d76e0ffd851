"""Bad input of POP, transactions and timers over sockets: Java's codes, and memory as before.

The codes are those that a Java 5.3.3 broker answers (tests/interop: test_pop, test_transactions,
test_timers compare them); here each is sent often enough to show its effect on memory.
"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import JSON, ROCKETMQ, RemotingCommand, request
from broker.remoting.protocol.framing import encode_frame
from tests.support.broker_process import BrokerProcess, Pinger, RawPeer

MIB = 1 << 20
ROUNDS = 400  # of every kind of bad input
TOPIC = "Orders"
GROUP = "G1"
DAY_MS = 86_400_000

Fields = dict[str, object]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("bad-input")
    settings = {"recallMessageEnable": "true", "transactionCheckInterval": "1000"}
    with BrokerProcess(folder, settings) as started:
        yield started
        assert started.is_running
        assert "Traceback" not in started.log_text


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[RawPeer]:
    with broker.connect() as connected:
        yield connected


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ask(peer: RawPeer, code: int, fields: Fields, body: bytes = b"") -> RemotingCommand:
    """The answer to one request; AssertionError if the broker closed the connection."""
    ext = {name: str(value) for name, value in fields.items()}
    answer = peer.call(request(code, ext, body))
    assert answer is not None, "the broker closed the connection"
    return answer


def send(peer: RawPeer, queue_id: int = 0, **properties: object) -> RemotingCommand:
    pairs = {"UNIQ_KEY": f"{time.time_ns():032X}", **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    names = ("P", TOPIC, "TBW102", 4, queue_id, 0, now_ms(), 0, text, 0, "false", "false")
    return ask(
        peer, RequestCode.SEND_MESSAGE_V2, dict(zip("abcdefghijkm", names, strict=True)), b"x"
    )


def property_text(pair: str, size: int) -> str:
    """``size`` bytes of many short properties, or a few less; ``pair`` has a place for a number."""
    pairs, length = [f"UNIQ_KEY\x01{0:032X}\x02"], 0
    while length < size:
        pairs.append(pair % len(pairs))
        length += len(pairs[-1])
    return "".join(pairs)[:size].rpartition("\x02")[0] + "\x02"


@pytest.mark.parametrize("form", [JSON, ROCKETMQ])
@pytest.mark.parametrize(
    ("size", "code", "remark"),
    [(32_000, ResponseCode.SUCCESS, None), (80_000, ResponseCode.MESSAGE_ILLEGAL, "at most 32767")],
)
def test_properties_of_many_short_values_are_stored_or_refused_as_illegal(
    peer: RawPeer, form: str, size: int, code: int, remark: str | None
) -> None:
    """JSON escapes each separator as six bytes: these headers have more than 64 KiB."""
    names = ("P", TOPIC, "TBW102", 4, 0, 0, now_ms(), 0, "", 0, "false", "false")
    ext = dict(zip("abcdefghijkm", map(str, names), strict=True))
    ext["i"] = property_text("%x\x01v\x02", size)
    command = request(RequestCode.SEND_MESSAGE_V2, ext, b"x")
    command.serialize_type = form
    assert form == ROCKETMQ or len(encode_frame(command)) > 64 * 1024
    answer = peer.call(command)
    assert answer is not None, "the broker closed the connection"
    assert answer.code == code
    assert remark is None or remark in (answer.remark or "")
    assert send(peer).code == 0  # on the same connection


class Popped:
    """A popped message of one queue, and the fields that acknowledge it."""

    def __init__(self, peer: RawPeer, queue_id: int) -> None:
        assert send(peer, queue_id).code == 0
        fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "maxMsgNums": 1,
            "invisibleTime": 60_000, "pollTime": 10_000, "bornTime": now_ms(), "initMode": 0,
        }  # fmt: skip
        answer = ask(peer, RequestCode.POP_MESSAGE, fields)
        assert answer.code == 0, answer.remark
        (message,) = scan_records(answer.body_bytes())
        ext, offset = answer.ext_fields, message.queue_offset
        handle = (
            f"{offset} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 "
            f"broker-a {queue_id} {offset}"
        )
        self.fields: Fields = {
            "consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id, "offset": offset,
            "extraInfo": handle,
        }  # fmt: skip


BAD_RECEIPTS: list[tuple[Fields, int]] = [
    ({"extraInfo": ""}, ResponseCode.SYSTEM_ERROR),
    ({"extraInfo": "junk"}, ResponseCode.SYSTEM_ERROR),
    ({"extraInfo": "a b c d e f g h"}, ResponseCode.SYSTEM_ERROR),
    ({"extraInfo": "0 1 2 99 0 broker-a 0 0"}, ResponseCode.SYSTEM_ERROR),
    ({"extraInfo": "9" * 30_000}, ResponseCode.SYSTEM_ERROR),
    ({"extraInfo": " " * 30_000}, ResponseCode.SYSTEM_ERROR),
    ({"topic": "Unknown"}, ResponseCode.TOPIC_NOT_EXIST),
    ({"queueId": 9}, ResponseCode.MESSAGE_ILLEGAL),
    ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL),
    ({"offset": 1 << 40}, ResponseCode.NO_MESSAGE),
    ({"offset": -1}, ResponseCode.NO_MESSAGE),
]


@pytest.mark.parametrize(
    "code", [RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME]
)
def test_a_bad_receipt_has_the_code_of_java_for_each_request(peer: RawPeer, code: int) -> None:
    popped = Popped(peer, 0)
    more = {"invisibleTime": 1_000} if code != RequestCode.ACK_MESSAGE else {}
    codes = [ask(peer, code, {**popped.fields, **more, **bad}).code for bad, _ in BAD_RECEIPTS]
    assert codes == [expected for _, expected in BAD_RECEIPTS]
    assert ask(peer, code, {**popped.fields, **more}).code == 0


def test_a_foreign_and_a_replayed_ack_are_accepted_and_acknowledge_nothing_else(
    peer: RawPeer,
) -> None:
    mine, other = Popped(peer, 0), Popped(peer, 1)
    foreign = {**mine.fields, "extraInfo": other.fields["extraInfo"]}
    assert ask(peer, RequestCode.ACK_MESSAGE, foreign).code == 0
    for _ in range(3):
        assert ask(peer, RequestCode.ACK_MESSAGE, mine.fields).code == 0


def half(peer: RawPeer) -> Fields:
    """A half message; the fields of its end, undecided."""
    sent = send(peer, TRAN_MSG="true", PGROUP="Payers").ext_fields
    return {
        "producerGroup": "Payers",
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": int(sent["msgId"][16:], 16),
        "msgId": sent["msgId"],
    }


BAD_ENDS: list[Fields] = [
    {"producerGroup": "Foreign"},
    {"tranStateTableOffset": 1 << 40},
    {"tranStateTableOffset": -1},
    {"commitLogOffset": 1 << 50},
    {"commitLogOffset": -1},
]


@pytest.mark.parametrize("decision", [8, 12])
def test_an_end_that_does_not_fit_the_half_is_a_system_error(peer: RawPeer, decision: int) -> None:
    fields = {**half(peer), "commitOrRollback": decision}
    codes = [ask(peer, RequestCode.END_TRANSACTION, {**fields, **bad}).code for bad in BAD_ENDS]
    assert codes == [ResponseCode.SYSTEM_ERROR] * len(BAD_ENDS)
    assert ask(peer, RequestCode.END_TRANSACTION, fields).code == 0
    # Java reads the half again: the end of a decided one is accepted.
    assert ask(peer, RequestCode.END_TRANSACTION, fields).code == 0


TIMERS: list[tuple[Fields, int]] = [
    ({"TIMER_DELIVER_MS": 1}, 0),  # delivered at once
    ({"TIMER_DELAY_SEC": -5}, 0),
    ({"TIMER_DELAY_SEC": 3 * 86_400 + 60}, ResponseCode.MESSAGE_ILLEGAL),
    ({"TIMER_DELIVER_MS": "soon"}, ResponseCode.MESSAGE_ILLEGAL),
    ({"TIMER_DELAY_SEC": 2**63}, ResponseCode.MESSAGE_ILLEGAL),
]


def recall(peer: RawPeer, handle: str) -> int:
    fields = {"producerGroup": "P", "topic": TOPIC, "recallHandle": handle}
    return ask(peer, RequestCode.RECALL_MESSAGE, fields).code


def test_timers_and_recalls_out_of_range_have_the_codes_of_java(peer: RawPeer) -> None:
    assert [send(peer, **timer).code for timer, _ in TIMERS] == [code for _, code in TIMERS]
    for due in (now_ms() - 1, now_ms() + 4 * DAY_MS, "soon"):
        text = f"v1 {TOPIC} broker-a {due} KEY"
        handle = base64.urlsafe_b64encode(text.encode()).decode()
        assert recall(peer, handle) == ResponseCode.ILLEGAL_OPERATION
    assert recall(peer, "@@@") == ResponseCode.ILLEGAL_OPERATION


def test_bad_input_leaves_nothing_in_memory(broker: BrokerProcess, peer: RawPeer) -> None:
    popped = Popped(peer, 2)
    ended = half(peer)
    entry = {
        "c": GROUP,
        "t": TOPIC,
        "r": "0",
        "so": 0,
        "q": 99,
        "rq": 0,
        "pt": 1,
        "it": 1,
        "b": "!",
    }
    batch = json.dumps({"brokerName": "broker-a", "acks": [entry] * 50}).encode()

    def one_round(other: RawPeer) -> None:
        for bad, _ in BAD_RECEIPTS:
            ask(other, RequestCode.ACK_MESSAGE, {**popped.fields, **bad})
            fields = {**popped.fields, "invisibleTime": 1_000, **bad}
            ask(other, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
        ask(other, RequestCode.BATCH_ACK_MESSAGE, {}, batch)
        for bad in BAD_ENDS:
            ask(other, RequestCode.END_TRANSACTION, {**ended, "commitOrRollback": 8, **bad})
        for timer, code in TIMERS:
            if code:
                send(other, **timer)
        recall(other, "@@@")

    with Pinger(broker.address) as ping:
        for _ in range(20):
            one_round(peer)
        ping.wait_for_answers(5)
        before = broker.rss_bytes()
        for number in range(ROUNDS):
            if number % 40 == 0:
                with broker.connect() as leaving:  # a client that vanishes
                    one_round(leaving)
            one_round(peer)
        ping.wait_for_answers(5)
        assert broker.rss_bytes() - before < 4 * MIB  # 12,000 requests of up to 30 KB
    assert ask(peer, RequestCode.ACK_MESSAGE, popped.fields).code == 0
