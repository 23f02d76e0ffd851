"""Records of message trace as Java encodes them, of every age."""

import pytest

from mqadmin.system_topics.trace import MESSAGE_TYPES, RETURN_TYPES, decode_trace

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


@pytest.mark.parametrize(("code", "name"), [*enumerate(MESSAGE_TYPES)])
def test_message_types_are_named_by_their_ordinal(code: int, name: str) -> None:
    (row,) = decode(*PUB[:11], str(code))
    assert row.message_type == name


@pytest.mark.parametrize("code", ["-1", "5", "x", "", "99999999999999999999"])
def test_an_unknown_message_type_is_absent(code: str) -> None:
    (row,) = decode(*PUB[:11], code)
    assert row.message_type is None


@pytest.mark.parametrize(("code", "name"), [*enumerate(RETURN_TYPES)])
def test_the_return_type_replaces_the_success_flag(code: int, name: str) -> None:
    (row,) = decode("SubAfter", "req", "ID", "3", "true", "k", str(code))
    assert row.status == name


@pytest.mark.parametrize(
    ("more", "status"),
    [((), "failed"), (("9",), "failed"), (("x",), "failed"), (("0",), "success")],
)
def test_without_a_known_return_type_the_flag_decides(more: tuple[str, ...], status: str) -> None:
    (row,) = decode("SubAfter", "req", "ID", "3", "false", "k", *more)
    assert row.status == status


@pytest.mark.parametrize("empty", ["", "null"])
def test_an_empty_field_and_the_word_null_are_absent(empty: str) -> None:
    (row,) = decode("Pub", "1", empty, empty, empty, "ID", empty, "", empty, "5", "7", "0")
    assert (row.region_id, row.group, row.topic, row.tags, row.store_host) == (None,) * 5


@pytest.mark.parametrize("text", ["", "x", "1.5", "9223372036854775808", " 1"])
def test_an_invalid_number_is_absent_and_the_record_stays(text: str) -> None:
    (row,) = decode("Pub", text, "R", "G", "T", "ID", "", "", "", text, text, "0")
    assert (row.timestamp, row.body_size, row.cost_ms) == (None, None, None)
    assert row.msg_id == "ID"


def test_the_start_of_a_consumption_has_no_result() -> None:
    (row,) = decode("SubBefore", "5", "R", "G", "req", "ID", "2", "a b")
    assert (row.trace_type, row.status, row.cost_ms, row.topic) == ("SubBefore", None, None, None)
    assert (row.retry_times, row.keys, row.request_id) == (2, ["a", "b"], "req")
    assert row.client_host == "born:1"


def test_the_start_of_a_consumption_may_name_its_client() -> None:
    (row,) = decode("SubBefore", "5", "R", "G", "req", "ID", "0", "", "c:7")
    assert row.client_host == "c:7"
    (row,) = decode("SubBefore", "5", "R", "G", "req", "ID", "0", "", "null")
    assert row.client_host == "born:1"


@pytest.mark.parametrize(("word", "asked"), [("true", True), ("false", False), ("", False)])
def test_a_transaction_is_ended_by_the_client_or_after_a_check(word: str, asked: bool) -> None:
    (row,) = decode(
        "EndTransaction", "1", "R", "G", "T", "ID", "A", "k", "h:1", "1", "TX", "ROLLBACK", word
    )
    assert row.from_check is asked
    assert (row.transaction_id, row.transaction_state) == ("TX", "ROLLBACK")


@pytest.mark.parametrize(
    ("fields", "least"),
    [
        (PUB, 12),
        (("SubBefore", "1", "R", "G", "req", "ID", "0", "k"), 8),
        (("SubAfter", "req", "ID", "3", "true", "k"), 6),
        (("EndTransaction", "1", "R", "G", "T", "ID", "", "", "h", "2", "TX", "COMMIT", "x"), 13),
        (("Recall", "1", "R", "G", "T", "ID", "true"), 7),
    ],
)
def test_every_type_has_a_least_number_of_fields(fields: tuple[str, ...], least: int) -> None:
    assert len(fields) == least
    assert len(decode(*fields)) == 1
    for cut in range(least):
        assert decode(*fields[:cut]) == []


def test_several_records_of_one_message_keep_their_order() -> None:
    text = R.join(
        F.join(fields)
        for fields in (
            PUB,
            ("Recall", "1", "R", "G", "T", "ID", "false"),
            ("broken",),
            ("SubAfter", "req", "ID", "3", "true", "k"),
        )
    )
    assert [row.trace_type for row in decode_trace(text.encode(), "b")] == [
        "Pub",
        "Recall",
        "SubAfter",
    ]


def test_a_record_without_its_end_mark_is_read_too() -> None:
    assert len(list(decode_trace(F.join(PUB).encode(), "b"))) == 1
    assert list(decode_trace(b"", "b")) == []


@pytest.mark.parametrize(
    ("text", "concerned"),
    [("ID", True), ("OFF", True), ("k1", True), ("k2", True), ("k1 k2", False), ("id", False)],
)
def test_a_step_is_found_by_either_id_or_one_key(text: str, concerned: bool) -> None:
    (row,) = decode(*PUB, "OFF", "true")
    assert row.concerns(text) is concerned


def test_any_bytes_are_rows_or_left_out(rng) -> None:
    whole = (
        R.join([F.join(PUB), "Recall\1a\1b\1c\1d\1e\1true", "SubAfter\1\1\1\1\1"]) + R
    ).encode()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.choice((1, 2, 0, 0xFF, rng.randrange(256)))
        for row in decode_trace(bytes(data), "born:1"):
            assert row.trace_type in ("Pub", "Recall", "SubAfter")
            assert row.client_host
