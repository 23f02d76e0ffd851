"""Records of message trace as Java encodes them, of every age."""

import pytest

from mqadmin.system_topics.trace import decode_trace

F, R = "\1", "\2"
PUB = ("Pub", "1", "R", "PG", "T", "ID", "A", "k1 k2", "h:1", "5", "7", "1")


def decode(*fields: str) -> list[object]:
    return list(decode_trace((F.join(fields) + R).encode(), "born:1"))


@pytest.mark.parametrize(
    ("more", "offset_id", "status", "client"),
    [
        ((), None, None, "born:1"),
        (("true",), None, "success", "born:1"),
        (("OFF", "false"), "OFF", "failed", "born:1"),
        (("OFF", "true", "c:1"), "OFF", "success", "c:1"),
    ],
)
def test_a_send_of_each_client_version(
    more: tuple[str, ...], offset_id: str | None, status: str | None, client: str
) -> None:
    (row,) = decode_trace((F.join(PUB + more) + R).encode(), "born:1")
    assert (row.offset_msg_id, row.status, row.client_host) == (offset_id, status, client)
    assert (row.keys, row.message_type, row.cost_ms) == (["k1", "k2"], "transactionHalf", 7)


def test_a_listener_call_has_its_return_type() -> None:
    (row,) = decode_trace(
        (F.join(("SubAfter", "req", "ID", "3", "false", "", "2")) + R).encode(), "b"
    )
    assert (row.status, row.cost_ms, row.timestamp, row.group) == ("exception", 3, None, None)
    after = ("SubAfter", "req", "ID", "3", "true", "", "0", "99", "CG")
    (row,) = decode_trace((F.join(after) + R).encode(), "b")
    assert (row.status, row.timestamp, row.group) == ("success", 99, "CG")


def test_transaction_and_recall() -> None:
    fields = ("EndTransaction", "1", "R", "PG", "T", "ID", "", "", "h", "2", "TX", "COMMIT", "true")
    (row,) = decode_trace((F.join(fields) + R).encode(), "b")
    assert (row.transaction_state, row.from_check, row.message_type) == (
        "COMMIT",
        True,
        "transactionCommit",
    )
    (row,) = decode_trace((F.join(("Recall", "1", "R", "PG", "T", "ID", "true")) + R).encode(), "b")
    assert (row.trace_type, row.status) == ("Recall", "success")


@pytest.mark.parametrize("cut", range(12))
def test_a_record_that_is_cut_off_or_unknown_is_left_out(cut: int) -> None:
    assert decode(*PUB[:cut]) == []
    assert decode("Other", *PUB[1:]) == []
    assert list(decode_trace(b"\xff\x01\x02\x00", "b")) == []
