"""Trace records, field by field."""

from typing import Any

import msgspec

from broker.client.hooks.events import ConsumeEvent
from broker.client.hooks.trace_format import (
    encode_consume,
    encode_end_transaction,
    encode_publish,
    keys_of,
)
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from tests.support.trace_events import ENDED, QUEUE, SENT


def fields(text: str) -> list[list[str]]:
    assert text.endswith("\x02")
    return [record.split("\x01") for record in text[:-1].split("\x02")]


def test_a_send_has_fifteen_fields() -> None:
    (record,) = fields(encode_publish(SENT, "10.0.0.1"))
    expected = "Pub 1000 Region pg T KEY A k1_k2 1.2.3.4:5 12 7 3 OFFSET true 10.0.0.1"
    assert record == [one.replace("_", " ") for one in expected.split()]


def test_a_failed_send_has_no_offset_id_and_false() -> None:
    failed = msgspec.structs.replace(SENT, result=None, error=ValueError())
    (record,) = fields(encode_publish(failed, "10.0.0.1"))
    assert (record[2], record[12], record[13]) == ("DefaultRegion", "", "false")


def consumed(**changes: Any) -> ConsumeEvent:
    def message(number: int) -> MessageExt:
        properties = {"UNIQ_KEY": f"KEY{number}", "KEYS": "k", "MSG_REGION": "Region"}
        return MessageExt("T", b"x", encode_properties(properties), reconsume_times=number)

    values: dict[str, Any] = {
        "group": "g",
        "request_id": "ID",
        "queue": QUEUE,
        "messages": [message(1), message(2)],
        "before": True,
        "at_ms": 1_000,
    }
    return ConsumeEvent(**{**values, **changes})


def test_the_start_of_a_call_has_nine_fields_per_message() -> None:
    assert fields(encode_consume(consumed(), "10.0.0.1")) == [
        ["SubBefore", "1000", "Region", "g", "ID", "KEY1", "1", "k", "10.0.0.1"],
        ["SubBefore", "1000", "Region", "g", "ID", "KEY2", "2", "k", "10.0.0.1"],
    ]


def test_the_end_of_a_call_divides_its_cost_by_the_messages() -> None:
    event = consumed(before=False, cost_ms=40.0, success=False, context_code=4)
    assert fields(encode_consume(event, "10.0.0.1")) == [
        ["SubAfter", "ID", "KEY1", "20", "false", "k", "4", "1000", "g"],
        ["SubAfter", "ID", "KEY2", "20", "false", "k", "4", "1000", "g"],
    ]


def test_the_end_of_a_transaction_has_thirteen_fields() -> None:
    (record,) = fields(encode_end_transaction(ENDED))
    fixed = "EndTransaction 1000 Region pg T KEY A k1_k2 1.2.3.4:5 2 TX {state} true"
    expected = fixed.format(state="ROLLBACK_MESSAGE").split()
    assert record == ["k1 k2" if one == "k1_k2" else one for one in expected]
    first = msgspec.structs.replace(ENDED, region_id="", from_check=False)
    (record,) = fields(encode_end_transaction(first))
    assert (record[2], record[12]) == ("DefaultRegion", "false")


def test_records_are_indexed_by_ids_and_keys() -> None:
    assert keys_of(ENDED) == {"KEY", "k1", "k2"}
    assert keys_of(SENT) == {"KEY", "k1", "k2"}
    assert keys_of(consumed()) == {"KEY1", "KEY2", "k"}
