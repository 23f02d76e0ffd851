"""Check points and acknowledgements: bytes of a real broker, merge keys, invalid bodies."""

import json

import pytest

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    ACK_TAG,
    CK_TAG,
    AckMsg,
    PopCheckPoint,
    check_point_uniq_key,
    decode_ack,
    decode_check_point,
    encode_ack,
    encode_check_point,
)
from broker.message.record import scan_records
from tests.support.json_mutations import failures


def check_point(**fields) -> PopCheckPoint:
    given = {
        "topic": "TopicA",
        "group": "GroupB",
        "queue_id": 1,
        "start_offset": 100,
        "pop_time": 1_700_000_000_000,
        "invisible_time": 60_000,
        "broker_name": "broker-a",
        "count": 3,
        "diffs": [0, 1, 5],
    }
    return PopCheckPoint(**{**given, **fields})


@pytest.fixture(scope="module")
def recorded(golden_store):
    """(tag, UNIQ_KEY, body) of every record of the revive topic of a Java broker."""
    log = golden_store("pop-533") / "store" / "commitlog" / "00000000000000000000"
    data = log.read_bytes()
    found = []
    try:
        for message in scan_records(data):
            if message.topic.startswith("rmq_sys_REVIVE_LOG_"):
                found.append((message.tags, message.uniq_key, message.body))
    except RemoteProtocolError:
        pass  # the unwritten rest of the file
    return found


def test_recorded_check_points_and_acks_encode_to_the_same_bytes(recorded) -> None:
    tags = set()
    for tag, uniq_key, body in recorded:
        tags.add(tag)
        if tag == CK_TAG:
            ck = decode_check_point(body)
            assert encode_check_point(ck) == body
            assert check_point_uniq_key(ck) == uniq_key
        else:
            ack = decode_ack(body)
            assert encode_ack(ack) == body
            assert (ack.tag, ack.uniq_key) == (tag, uniq_key)
    assert tags == {CK_TAG, ACK_TAG}


def test_an_ack_has_the_merge_key_of_its_check_point(recorded) -> None:
    keys = {decode_check_point(body).merge_key("x") for tag, _, body in recorded if tag == CK_TAG}
    acks = [decode_ack(body).merge_key("x") for tag, _, body in recorded if tag == ACK_TAG]
    assert acks
    assert set(acks) <= keys


def test_an_ack_without_broker_belongs_to_the_check_point_of_this_broker() -> None:
    ack = decode_ack(
        b'{"ao":0,"aol":[100],"c":"GroupB","pt":1700000000000,"q":1,"so":100,"t":"TopicA"}'
    )
    assert ack.merge_key("broker-a") == check_point().merge_key("other")


def test_offsets_follow_the_differences() -> None:
    ck = check_point()
    assert [ck.offset_at(index) for index in range(3)] == [100, 101, 105]
    assert [ck.index_of(offset) for offset in (99, 100, 101, 102, 105)] == [-1, 0, 1, -1, 2]


def test_the_old_form_without_differences_has_consecutive_offsets() -> None:
    ck = check_point(diffs=[])
    assert ck.unacknowledged == [100, 101, 102]
    assert [ck.index_of(offset) for offset in (99, 102, 103)] == [-1, 2, -1]


def test_acknowledging_counts_each_message_once() -> None:
    ck = check_point()
    assert ck.acknowledge([100, 105, 99]) == 2
    assert ck.acknowledge([100, 105]) == 0
    assert (ck.unacknowledged, ck.done) == ([101], False)
    assert ck.acknowledge([101]) == 1
    assert ck.done


def test_a_batch_of_the_pop_buffer_has_no_broker_and_lists_its_offsets() -> None:
    ack = AckMsg(
        topic="T",
        group="G",
        queue_id=0,
        start_offset=7,
        pop_time=9,
        broker_name=None,
        offsets=[7, 8],
        batched=True,
    )
    assert json.loads(encode_ack(ack)) == {
        "ao": 0, "aol": [7, 8], "c": "G", "pt": 9, "q": 0, "so": 7, "t": "T",
    }  # fmt: skip
    assert ack.uniq_key == "T@0@[7, 8]@G@9@bAck"
    assert decode_ack(encode_ack(ack), batched=True) == ack


def test_a_batch_of_the_ack_processor_has_offset_minus_one() -> None:
    ack = AckMsg(
        topic="T",
        group="G",
        queue_id=0,
        start_offset=7,
        pop_time=9,
        broker_name="b",
        offsets=[7, 8],
        batched=True,
    )
    assert json.loads(encode_ack(ack))["ao"] == -1
    assert ack.uniq_key == "T@0@-1@G@9@b@ack"


def test_re_put_times_are_text_and_absent_at_first() -> None:
    assert b'"rp"' not in encode_check_point(check_point())
    body = encode_check_point(check_point(re_put_times=3))
    assert b'"rp":"3"' in body
    assert decode_check_point(body).re_put_times == 3


def test_every_cut_of_a_body_is_refused(every_cut) -> None:
    body = encode_check_point(check_point())
    assert every_cut(decode_check_point, body) == []
    assert every_cut(decode_ack, b'{"ao":1,"c":"G","pt":2,"q":0,"so":1,"t":"T"}') == []


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"\xff",
        b"{}",
        b'{"t":"T"}',
        b'{"t":"T","c":"G","n":33}',
        b'{"t":"T","c":"G","n":-1}',
        b'{"t":"T","c":"G","n":2,"d":[0]}',
        b'{"t":"T","c":"G","n":1,"d":["0"]}',
        b'{"t":"T","c":"G","so":"x"}',
        b'{"t":"T","c":"G","q":3000000000}',
        b'{"t":"T","c":"G","bn":5}',
        b'{"t":"T","c":"G","pt":1.5}',
    ],
)
def test_an_invalid_check_point_is_refused(body) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_check_point(body)


def test_a_check_point_with_a_value_of_another_type_is_decoded_or_refused() -> None:
    """One record must not end the revive of all others."""
    document = json.loads(encode_check_point(check_point(re_put_times=2)))

    def decode(changed: object) -> None:
        ck = decode_check_point(json.dumps(changed).encode())
        assert isinstance(ck.topic, str)
        assert len(ck.diffs) in (0, ck.count)
        again = decode_check_point(encode_check_point(ck))
        assert encode_check_point(again) == encode_check_point(ck)

    accepted, wrong = failures(decode, document)
    assert wrong == []
    assert accepted > 0


@pytest.mark.parametrize("batched", [False, True])
def test_an_ack_with_a_value_of_another_type_is_decoded_or_refused(batched: bool) -> None:
    document = {
        "ao": 7, "aol": [7, 9], "bn": "broker-a", "c": "G", "pt": 5, "q": 1, "so": 3, "t": "T"
    }  # fmt: skip

    def decode(changed: object) -> None:
        ack = decode_ack(json.dumps(changed).encode(), batched=batched)
        assert all(type(offset) is int for offset in ack.offsets)
        encode_ack(ack)

    accepted, wrong = failures(decode, document)
    assert wrong == []
    assert accepted > 0


@pytest.mark.parametrize("missing", ["t", "c"])
def test_a_record_without_topic_or_group_is_refused(missing: str) -> None:
    document = json.loads(encode_check_point(check_point()))
    del document[missing]
    with pytest.raises(RemoteProtocolError, match=f"{missing} is missing"):
        decode_check_point(json.dumps(document).encode())
