"""Record batches equal the records decoded one by one: every column, selection, inner batches."""

import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from broker.common import sysflag
from broker.message.batch import encode_batch
from broker.message.message import Message, MessageExt
from broker.message.record import decode_record
from tests.support.made_store import MadeStore

pytest.importorskip("pyarrow")

from broker.store.format.vectorized import columns
from mqadmin.inspector.export import arrow
from mqadmin.inspector.export.arrow import SCHEMA, BatchMaker, file_batches, purpose_of

V6 = bytes(range(16)) + bytes((0, 0, 0, 80))
NAMES = [field.name for field in SCHEMA]


def put_any(store: MadeStore, rng: random.Random) -> None:
    """Append a record of a random kind."""
    fields: dict[str, Any] = {"flag": rng.randrange(9), "reconsume_times": rng.randrange(3)}
    properties = {"KEYS": rng.choice(("", "a", "a b")), "TAGS": rng.choice(("", "T", "Größe"))}
    if rng.random() < 0.5:
        properties["UNIQ_KEY"] = "U" * rng.randrange(1, 9)
    flags = 0
    if rng.random() < 0.2:
        flags |= sysflag.BORNHOST_V6
        fields["born_host_raw"] = V6
    if rng.random() < 0.2:
        flags |= sysflag.STOREHOST_V6
        fields["store_host_raw"] = V6
    if rng.random() < 0.3:
        flags |= sysflag.COMPRESSED
        fields["body"] = zlib.compress(b"compressed body" * rng.randrange(1, 20))
    store.put(
        rng.choice(("TopicA", "Größe", "B")),
        rng.randrange(4),
        sys_flag=flags,
        properties=properties,
        **fields,
    )


@pytest.fixture
def store(tmp_path: Path, rng: random.Random) -> MadeStore:
    made = MadeStore(tmp_path / "store", file_size=1 << 17)
    for _ in range(120):
        put_any(made, rng)
    return made


def rows_of(store: MadeStore, names: list[str] = NAMES, **options: Any) -> list[dict[str, Any]]:
    data = bytes(store.log)
    maker = BatchMaker(data, names, store="/s", **options.pop("maker", {}))
    found: list[dict[str, Any]] = []
    for batch in file_batches(data, store.start, maker, **options):
        found += batch.to_pylist()
    return found


def expected(store: MadeStore, place: int) -> dict[str, Any]:
    message: MessageExt = decode_record(bytes(store.log), place - store.start)
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": place,
        "size": message.total_size,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "prepared_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "body_len": len(message.body),
        "body": message.payload(1 << 20),
        "tags": message.tags,
        "keys": " ".join(message.keys) or None,
        "uniq_key": message.uniq_key,
        "properties": message.properties_raw.decode(),
        "offset_msg_id": message.offset_msg_id,
        "store": "/s",
        "crc_ok": True,
        "damage": None,
    }


def test_every_column_equals_the_decoded_record(store: MadeStore) -> None:
    found = rows_of(store, check_crc=True)
    assert [row["physical_offset"] for row in found] == [place for place, _ in store.places]
    for row, (place, _) in zip(found, store.places, strict=True):
        wanted = expected(store, place)
        shown = {
            name: row[name] or None if name in ("tags", "keys") else row[name] for name in wanted
        }
        assert shown == {**wanted, "tags": wanted["tags"] or None}
        message = decode_record(bytes(store.log), place)
        assert row["born_time"].timestamp() * 1000 == pytest.approx(message.born_timestamp)
        assert row["store_time"].timestamp() * 1000 == pytest.approx(message.store_timestamp)


@pytest.mark.parametrize("names", [["topic"], ["body", "topic"], ["crc_ok"], []])
def test_only_the_named_columns_are_built_in_their_order(
    store: MadeStore, names: list[str]
) -> None:
    found = rows_of(store, names)
    assert len(found) == 120
    assert all(list(row) == names for row in found)


def test_batches_of_any_length_give_the_same_rows(store: MadeStore) -> None:
    whole = rows_of(store)
    for rows in (1, 7, 119, 120, 1000):
        assert rows_of(store, rows=rows) == whole


def test_a_selection_runs_before_data_is_copied(store: MadeStore) -> None:
    import numpy as np

    found = rows_of(
        store, maker={"keep": lambda batch: np.flatnonzero(batch.column("queue_id") == 2)}
    )
    assert {row["queue_id"] for row in found} == {2}
    assert rows_of(store, maker={"keep": lambda batch: np.empty(0, dtype=np.int64)}) == []


@pytest.mark.parametrize("part", [(0, 60), (60, 120), (30, 31)])
def test_records_that_start_in_a_range_are_read(store: MadeStore, part: tuple[int, int]) -> None:
    first, last = part
    end = store.places[last][0] if last < 120 else None
    start = store.places[first][0]
    for shift in (0, -3):  # a start inside the record before
        found = rows_of(store, ["physical_offset"], start=max(start + shift, 0), end=end)
        assert [row["physical_offset"] for row in found] == [
            place for place, _ in store.places[first:last]
        ]


def test_an_end_before_the_first_record_gives_nothing(store: MadeStore) -> None:
    assert rows_of(store, start=store.places[5][0], end=store.places[5][0]) == []
    assert rows_of(store, start=len(store.log)) == []


def test_damaged_regions_are_rows_on_request(store: MadeStore) -> None:
    place, size = store.places[50]
    store.log[place + 4] ^= 0xFF
    plain = rows_of(store)
    assert len(plain) == 119
    damaged = [row for row in rows_of(store, with_damage=True) if row["damage"] is not None]
    assert [(row["physical_offset"], row["size"]) for row in damaged] == [(place, size)]
    assert damaged[0]["damage"].startswith("magic: ")
    assert damaged[0]["topic"] is None


def test_a_wrong_body_is_marked_if_checked(store: MadeStore) -> None:
    place, _ = next(
        (place, size)
        for place, size in store.places
        if decode_record(bytes(store.log), place).sys_flag == 0
    )
    store.log[place + 92] ^= 1
    marked = {row["physical_offset"]: row["crc_ok"] for row in rows_of(store, check_crc=True)}
    assert [at for at, ok in marked.items() if not ok] == [place]
    unchecked = rows_of(store, [name for name in NAMES if name != "crc_ok"])
    assert len(unchecked) == 120


def test_a_body_that_cannot_be_decompressed_is_null(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store", file_size=1 << 14)
    store.put(sys_flag=sysflag.COMPRESSED, body=b"not zlib at all")
    (row,) = rows_of(store)
    assert (row["body"], row["body_len"]) == (None, 15)


def test_invalid_utf_8_is_replaced_as_in_java(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store", file_size=1 << 14)
    store.put("TopicA", properties={"TAGS": "abcd"})
    at = bytes(store.log).index(b"abcd")
    store.log[at : at + 2] = b"\xff\xfe"
    (row,) = rows_of(store)
    assert row["tags"] == "\ufffd\ufffdcd"


# ---- inner batches


def inner_store(root: Path, body: bytes | None = None) -> MadeStore:
    """A record before, an inner batch of three messages, a record after."""
    store = MadeStore(root, file_size=1 << 14)
    store.put()
    messages = [
        Message("TopicA", b"m%d" % number, keys=f"k{number}", tags="T") for number in range(3)
    ]
    store.put(
        sys_flag=sysflag.INNER_BATCH | sysflag.NEED_UNWRAP,
        body=encode_batch(messages) if body is None else body,
        properties={"INNER_NUM": "3"},
        queue_offset=10,
    )
    store.put()
    return store


def test_the_messages_of_an_inner_batch_are_rows(tmp_path: Path) -> None:
    store = inner_store(tmp_path / "store")
    found = rows_of(store)
    assert [row["body"] for row in found[1:4]] == [b"m0", b"m1", b"m2"]
    assert [row["queue_offset"] for row in found[1:4]] == [10, 11, 12]
    assert {row["physical_offset"] for row in found[1:4]} == {store.places[1][0]}
    assert [row["keys"] for row in found[1:4]] == ["k0", "k1", "k2"]
    assert len(found) == 5


def test_an_inner_batch_that_cannot_be_read_is_one_row(tmp_path: Path) -> None:
    found = rows_of(inner_store(tmp_path / "store", body=b"no batch"))
    assert [row["body"] for row in found][1] == b"no batch"
    assert len(found) == 3


def test_messages_of_an_inner_batch_can_be_selected(tmp_path: Path) -> None:
    store = inner_store(tmp_path / "store")

    def only(record: MessageExt, messages: list[MessageExt]) -> list[MessageExt]:
        return [message for message in messages if message.body == b"m1"]

    bodies = [row["body"] for row in rows_of(store, maker={"keep_inner": only})]
    assert bodies[1:-1] == [b"m1"]
    none = rows_of(store, maker={"keep_inner": lambda record, messages: []})
    assert len(none) == 2


def test_an_unreadable_inner_batch_is_selected_as_a_whole(tmp_path: Path) -> None:
    store = inner_store(tmp_path / "store", body=b"no batch")
    whole = rows_of(store, maker={"keep_inner": lambda record, messages: messages})
    assert len(whole) == 3


# ---- the purpose of a scan


@pytest.mark.parametrize(
    ("names", "check_crc", "flags"),
    [
        (["topic"], False, 0),
        (["topic"], True, columns.WITH_CRC),
        (["crc_ok"], False, columns.WITH_CRC),
        (["tags"], False, columns.WITH_PROPERTIES),
        (["keys", "crc_ok"], False, columns.WITH_CRC | columns.WITH_PROPERTIES),
        (["uniq_key"], True, columns.WITH_CRC | columns.WITH_PROPERTIES),
        (["properties"], False, 0),
    ],
)
def test_a_scan_reads_only_the_parts_that_the_columns_need(
    names: list[str], check_crc: bool, flags: int
) -> None:
    assert purpose_of(names, check_crc=check_crc) == flags


def test_a_body_is_decompressed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    body = zlib.compress(bytes(1000))
    assert arrow.unpacked(body, sysflag.COMPRESSED) == bytes(1000)
    monkeypatch.setattr(arrow, "BODY_LIMIT", 999)
    assert arrow.unpacked(body, sysflag.COMPRESSED) is None
