"""The row of an undecided transaction: the real topic and queue, its age, its identifiers."""

from broker.common.topic import TRANS_HALF_TOPIC
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record, encode_record
from mqadmin.transaction_row import OPEN, TransactionRow, transaction_row

NOW_MS = 1_700_000_010_000


def row(**changed: str) -> TransactionRow:
    """The row of a half message whose properties are those of a producer, with changes."""
    properties = {
        "REAL_TOPIC": "orders",
        "REAL_QID": "3",
        "PGROUP": "payments",
        "UNIQ_KEY": "0A0B",
        "KEYS": "k1 k2",
        "TRANSACTION_CHECK_TIMES": "2",
        **changed,
    }
    message = MessageExt(
        TRANS_HALF_TOPIC,
        b"body",
        encode_properties(properties),
        queue_offset=17,
        physical_offset=4096,
        born_timestamp=NOW_MS - 10_000,
        store_timestamp=NOW_MS - 9_990,
        born_host_raw=bytes((10, 1, 2, 3, 0, 0, 0xD4, 0x31)),
        store_host_raw=bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)),
    )
    return transaction_row(decode_record(encode_record(message)), "broker-a", OPEN, NOW_MS)


def test_a_row_names_the_real_topic_and_queue() -> None:
    assert (row().topic, row().queue_id, row().producer_group) == ("orders", 3, "payments")
    assert (row().queue_offset, row().physical_offset) == (17, 4096)


def test_a_record_without_a_real_place_has_none_in_the_row() -> None:
    assert (row(REAL_QID="x").topic, row(REAL_QID="x").queue_id) == (None, None)


def test_age_is_counted_from_the_send_and_invalid_checks_as_none() -> None:
    assert (row().age_ms, row().checks) == (10_000, 2)
    assert row(TRANSACTION_CHECK_TIMES="x").checks == 0


def test_a_row_matches_its_ids_in_either_case_and_its_keys_exactly() -> None:
    assert row().matches("0a0b")
    assert row().matches(row().offset_msg_id.lower())
    assert row().matches("k2")
    assert not row().matches("K2")
