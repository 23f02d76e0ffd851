"""The units and index keys that follow from a record; transactions, delays, times."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.common.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from broker.store.format.commitlog import file_name
from broker.store.format.indexfile import index_key_hash
from mqadmin.inspector.verify.record_checks import key_hashes, tags_code
from tests.support.made_store import NOW, MadeStore

LOG = f"commitlog/{file_name(0)}"
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
OP = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def record(properties: bytes, topic: bytes = b"T", sys_flag: int = 0) -> Any:
    return SimpleNamespace(properties=properties, topic=topic, sys_flag=sys_flag)


# ---- pure parts


@pytest.mark.parametrize(
    ("properties", "code"),
    [(b"", 0), (b"TAGS\x01\x02", 0), (b"TAGS\x01TagA\x02", 2598919), (b"A\x01b\x02TAGS\x01a", 97)],
)
def test_the_tags_code_is_the_java_hash_of_the_tags(properties: bytes, code: int) -> None:
    assert tags_code(record(properties)) == code


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (b"", []),
        (b"KEYS\x01a\x02", ["a"]),
        (b"KEYS\x01 a  b \x02", ["a", "b"]),
        (b"KEYS\x01a\x02UNIQ_KEY\x01u\x02", ["u", "a"]),
        (b"UNIQ_KEY\x01u\x02", ["u"]),
    ],
)
def test_a_record_is_indexed_under_its_uniq_key_and_each_word_of_its_keys(
    properties: bytes, words: list[str]
) -> None:
    assert key_hashes(record(properties)) == [index_key_hash("T", word) for word in words]


def test_a_rolled_back_message_is_not_indexed() -> None:
    assert key_hashes(record(b"KEYS\x01a\x02", sys_flag=TRANSACTION_ROLLBACK)) == []
    for flag in (0, TRANSACTION_PREPARED, TRANSACTION_COMMIT):
        assert key_hashes(record(b"KEYS\x01a\x02", sys_flag=flag))


def test_the_hash_of_a_topic_outside_ascii_is_that_of_its_text() -> None:
    made = record(b"KEYS\x01\xc3\xbc\x02", topic="Größe".encode())
    assert key_hashes(made) == [index_key_hash("Größe", "ü")]


# ---- times


@pytest.mark.parametrize(
    ("back_ms", "severity"), [(1, "notice"), (3_600_000, "notice"), (3_600_001, "warning")]
)
def test_a_time_before_that_of_the_preceding_record_is_reported(
    tmp_path: Path, check, back_ms: int, severity: str
) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    for number in range(10):
        store.put(store_timestamp=NOW + number * 1000 - (back_ms + 1000 if number == 6 else 0))
    store.write()
    store.write_topics()
    store.write_index(capacity=40)
    found = [one for one in check(store.root).found if one.kind == "timestamp"]
    assert found == [("timestamp", severity, LOG, store.places[6][0], None)]


def test_equal_times_are_sound(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store")
    for _ in range(5):
        store.put(store_timestamp=NOW)
    store.write_all()
    assert check(store.root).found == []


# ---- transactions


def transaction(tmp_path: Path, **commit: Any) -> MadeStore:
    """A half message, its commit and its op record; ``commit`` changes the committed message."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    store.put("Orders")  # offset 0 means that a record names no half message
    half = store.put(HALF, sys_flag=0, properties={"UNIQ_KEY": "u1"})
    given = {
        "sys_flag": TRANSACTION_COMMIT,
        "prepared_transaction_offset": half,
        "properties": {"UNIQ_KEY": "u1"},
        **commit,
    }
    store.put("Orders", **given)
    store.put(OP, body=b"0", properties={"TAGS": "d"})
    store.write_all()
    return store


def test_a_commit_of_its_half_message_is_sound(tmp_path: Path, check) -> None:
    assert check(transaction(tmp_path).root).found == []


@pytest.mark.parametrize(
    "commit",
    [
        {"prepared_transaction_offset": 3},
        {"prepared_transaction_offset": 1 << 40},
        {"properties": {"UNIQ_KEY": "another"}},
    ],
    ids=["no record", "past the end", "another uniqKey"],
)
def test_a_commit_without_its_half_message_is_reported(tmp_path: Path, check, commit) -> None:
    store = transaction(tmp_path, **commit)
    place, size = store.places[2]
    assert check(store.root).found == [("transaction", "error", LOG, place, size)]


def test_a_commit_of_another_kind_of_record_is_reported(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    store.put("Orders")
    plain = store.put("Orders", properties={"UNIQ_KEY": "u1"})
    store.put(
        "Orders",
        sys_flag=TRANSACTION_COMMIT,
        prepared_transaction_offset=plain,
        properties={"UNIQ_KEY": "u1"},
    )
    store.write_all()
    place, size = store.places[2]
    assert check(store.root).found == [("transaction", "error", LOG, place, size)]


def test_a_half_message_that_has_expired_is_not_looked_for(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store", start=8192)
    store.put("Orders", sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=100)
    store.write_all()
    assert check(store.root).found == []


@pytest.mark.parametrize(
    "body", [b"", b"x", b"1,,2", b",1", b"-1", b"1 2", b"9" * 20, b"9" * 5_000]
)
def test_an_op_record_without_a_list_of_offsets_is_reported(
    tmp_path: Path, check, body: bytes
) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    store.put(HALF)
    store.put(OP, body=body)
    store.write_all()
    place, size = store.places[1]
    assert ("transaction", "error", LOG, place, size) in check(store.root).found


@pytest.mark.parametrize(("body", "sound"), [(b"0", True), (b"0,1,", True), (b"0,2", False)])
def test_an_op_record_must_name_existing_half_messages(
    tmp_path: Path, check, body: bytes, sound: bool
) -> None:
    store = MadeStore(tmp_path / "store", file_size=16384)
    for _ in range(2):
        store.put(HALF)
    place = store.put(OP, body=body)
    store.write_all()
    found = [one for one in check(store.root).found if one.kind == "transaction"]
    assert [(one.severity, one.physical_offset) for one in found] == (
        [] if sound else [("error", place)]
    )


@pytest.mark.parametrize("flag", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_prepared_and_rolled_back_records_need_no_unit(tmp_path: Path, check, flag: int) -> None:
    """Half messages are stored with flag 0 in their own topic; these flags are of old brokers."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    store.put("Orders")
    store.put("Orders", sys_flag=flag)
    store.queues["Orders", 0].pop()
    if flag == TRANSACTION_ROLLBACK:
        store.keys.pop()
    store.put("Orders", queue_offset=1)
    store.write_all()
    assert check(store.root).found == []


# ---- multi-dispatch


def test_a_multi_dispatched_record_needs_a_unit_in_each_queue(tmp_path: Path, check) -> None:
    from tests.support.store_units import encode_unit

    store = MadeStore(tmp_path / "store", file_size=16384)
    for number in range(3):
        place = store.put(
            properties={
                "INNER_MULTI_DISPATCH": "%LMQ%a",
                "INNER_MULTI_QUEUE_OFFSET": str(number),
            }
        )
        unit = encode_unit(place, store.places[-1][1], 2598919)
        store.queues.setdefault(("%LMQ%a", 0), []).append(unit)
    store.write_all()
    assert check(store.root).found == []
    store.poke_unit("%LMQ%a", 0, 1, bytes(20))
    path = f"consumequeue/%LMQ%a/0/{file_name(0)}"
    assert check(store.root).found == [("unitMissing", "error", path, 20, 20)]
    assert check(store.root, topic="%LMQ%a").found == [("unitMissing", "error", path, 20, 20)]
