"""Trace records of our client as mqadmin reads them: every field arrives, whatever its text."""

import random
from typing import Any

import msgspec
import pytest

from broker.client.hooks.events import ConsumeEvent, SendEvent
from broker.client.hooks.trace_format import (
    encode_consume,
    encode_end_transaction,
    encode_publish,
    keys_of,
)
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from mqadmin.system_topics.trace import MESSAGE_TYPES, RETURN_TYPES, TraceRow, decode_trace
from tests.support.trace_events import ENDED, QUEUE, SENT

CLIENT = "10.0.0.9@7#1"


def sent(**changes: Any) -> SendEvent:
    return msgspec.structs.replace(SENT, **{"message_type": 0, **changes})


def consumed(*keys: str, **changes: Any) -> ConsumeEvent:
    messages = [
        MessageExt(
            "T",
            b"x",
            encode_properties({"UNIQ_KEY": f"ID{number}", "KEYS": key} if key else {}),
            reconsume_times=number,
        )
        for number, key in enumerate(keys)
    ]
    values: dict[str, Any] = {
        "group": "g",
        "request_id": "R",
        "queue": QUEUE,
        "messages": messages,
        "before": True,
        "at_ms": 1_000,
    }
    return ConsumeEvent(**{**values, **changes})


def rows(text: str) -> list[TraceRow]:
    return list(decode_trace(text.encode(), "born:1"))


def test_a_send_arrives_with_every_field() -> None:
    (row,) = rows(encode_publish(sent(), CLIENT))
    assert (row.trace_type, row.timestamp, row.group, row.topic) == ("Pub", 1_000, "pg", "T")
    assert (row.msg_id, row.offset_msg_id, row.tags) == ("KEY", "OFFSET", "A")
    assert (row.keys, row.body_size, row.cost_ms) == (["k1", "k2"], 12, 7)
    assert (row.store_host, row.region_id, row.client_host) == ("1.2.3.4:5", "Region", CLIENT)
    assert row.status == "success"


@pytest.mark.parametrize("number", range(len(MESSAGE_TYPES)))
def test_the_type_of_a_message_has_the_name_of_its_ordinal(number: int) -> None:
    (row,) = rows(encode_publish(sent(message_type=number), CLIENT))
    assert row.message_type == MESSAGE_TYPES[number]


def test_a_failed_send_has_no_place_in_the_store() -> None:
    (row,) = rows(encode_publish(sent(result=None, error=OSError()), CLIENT))
    assert (row.status, row.offset_msg_id, row.region_id) == ("failed", None, "DefaultRegion")


def test_a_listener_call_has_a_row_for_each_message() -> None:
    before = rows(encode_consume(consumed("a", "b c"), CLIENT))
    assert [(row.msg_id, row.keys, row.retry_times) for row in before] == [
        ("ID0", ["a"], 0),
        ("ID1", ["b", "c"], 1),
    ]
    assert {(row.trace_type, row.group, row.request_id) for row in before} == {
        ("SubBefore", "g", "R")
    }
    assert {row.status for row in before} == {None}


@pytest.mark.parametrize("code", range(len(RETURN_TYPES)))
def test_the_end_of_a_call_has_the_name_of_its_result(code: int) -> None:
    event = consumed("a", before=False, cost_ms=30.0, success=code == 0, context_code=code)
    (row,) = rows(encode_consume(event, CLIENT))
    assert (row.trace_type, row.status, row.cost_ms) == ("SubAfter", RETURN_TYPES[code], 30)
    assert (row.group, row.timestamp) == ("g", 1_000)


def test_the_end_of_a_transaction_arrives_with_every_field() -> None:
    (row,) = rows(encode_end_transaction(ENDED))
    assert (row.trace_type, row.timestamp, row.group) == ("EndTransaction", 1_000, "pg")
    assert (row.topic, row.msg_id, row.tags, row.keys) == ("T", "KEY", "A", ["k1", "k2"])
    assert (row.store_host, row.region_id) == ("1.2.3.4:5", "Region")
    assert (row.transaction_id, row.transaction_state) == ("TX", "ROLLBACK_MESSAGE")
    assert (row.from_check, row.message_type) == (True, "transactionCommit")


def test_a_row_is_found_by_every_key_under_which_its_record_is_indexed() -> None:
    """``msg trace`` finds records by key, and then their rows by the same text."""
    event = sent(keys="k1 k2")
    (row,) = rows(encode_publish(event, CLIENT))
    assert all(row.concerns(key) for key in keys_of(event))
    assert row.concerns("OFFSET")
    assert not row.concerns("k")
    assert not row.concerns("T")
    after = consumed("a b", before=False, cost_ms=1.0, success=True, context_code=0)
    (row,) = rows(encode_consume(after, CLIENT))
    assert all(row.concerns(key) for key in keys_of(after))


def test_records_of_one_body_do_not_mix(rng: random.Random) -> None:
    for _ in range(50):
        events = [sent(msg_id=f"M{number}", born_ms=number) for number in range(rng.randint(0, 9))]
        text = "".join(encode_publish(event, CLIENT) for event in events)
        assert [(row.msg_id, row.timestamp) for row in rows(text)] == [
            (event.msg_id, event.born_ms) for event in events
        ]


def test_damaged_bodies_give_rows_or_nothing(rng: random.Random) -> None:
    whole = (encode_publish(sent(), CLIENT) + encode_consume(consumed("a"), CLIENT)).encode()
    for cut in range(len(whole)):
        assert len(list(decode_trace(whole[:cut], "b"))) <= 2
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice(b"\x00\x01\x02\xff9S")
        for row in decode_trace(bytes(data), "b"):
            assert row.trace_type in ("Pub", "SubBefore", "SubAfter")
            assert row.timestamp is None or isinstance(row.timestamp, int)
