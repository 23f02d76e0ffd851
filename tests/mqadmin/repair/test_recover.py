"""Recovery: valid records are found at any position; lost ones are counted."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from broker.message.record import decode_record
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.recover import SalvagedRows, recover
from tests.support.made_store import MadeStore

LOG_FILE = 65536


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def test_a_whole_store_gives_every_record_and_no_loss(golden_store, kept) -> None:
    for name in ("normal-stop-533", "batch-cq-533", "ipv6-498", "kill9-sync-498"):
        root = golden_store(name) / "store"
        found = recover([root])
        assert [item.data for item in found.records] == [item.data for item in kept(root)]
        assert found.losses == []


def test_single_files_are_read_in_any_order(golden_store, kept, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    second = tmp_path / "orphan.bin"
    shutil.copy(log_files(root)[1], second)
    found = recover([second])
    expected = [k.data for k in kept(root) if LOG_FILE <= k.start < 2 * LOG_FILE]
    assert [item.data for item in found.records] == expected
    assert found.losses == []


def test_the_middle_of_a_file_is_enough(golden_store, kept, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    good = [item for item in kept(root) if item.start < LOG_FILE]
    begin, end = good[10].start + 30, good[60].start + 100
    piece = tmp_path / "piece"
    piece.write_bytes(log_files(root)[0].read_bytes()[begin:end])
    found = recover([piece])
    assert [item.data for item in found.records] == [item.data for item in good[11:60]]
    assert found.lost_bytes == (good[11].start - begin) + (end - good[60].start)


def test_zeroed_pages_and_flipped_bits_lose_only_the_records_they_touch(
    base_store, kept, rng: random.Random
) -> None:
    root = base_store("normal-stop-533")
    good = kept(root)
    path = log_files(root)[0]
    data = bytearray(path.read_bytes())
    touched = []
    for _ in range(6):
        at = rng.randrange(0, good[-1].start % LOG_FILE or LOG_FILE)
        length = rng.choice([1, 1, 1, 4096])
        at = min(at, LOG_FILE - 4200)
        data[at : at + length] = bytes(byte ^ 0xFF for byte in data[at : at + length])
        touched.append((at, at + length))
    path.write_bytes(data)
    found = recover([root])
    bodies = {item.data for item in found.records}
    for item in good:
        if not any(begin < item.end and item.start < end for begin, end in touched):
            assert item.data in bodies
    # Nothing is invented: every recovered record was there, or differs where it was changed.
    assert all(decode_record(item.data) for item in found.records)


def test_a_record_within_a_body_is_not_a_message(golden_store, kept, tmp_path: Path) -> None:
    """A message that carries another one, in a file whose carrier is damaged."""
    from broker.message.message import MessageExt
    from broker.message.record import encode_record

    inner = encode_record(MessageExt("Inner", b"x" * 50, physical_offset=4711))
    outer = bytearray(encode_record(MessageExt("Outer", inner * 3, physical_offset=0)))
    behind = encode_record(MessageExt("Behind", b"last", physical_offset=len(outer)))
    outer[4] ^= 1
    path = tmp_path / f"{0:020d}"
    path.write_bytes(bytes(outer) + behind + bytes(4096))
    found = recover([path])
    assert [item.message.topic for item in found.records] == ["Behind"]
    assert found.lost_bytes == len(outer)


def test_damaged_bodies_come_only_when_asked_for(base_store, kept) -> None:
    root = base_store("normal-stop-533")
    item = next(k for k in kept(root) if k.record.body_length > 50)
    path = log_files(root)[0]
    data = bytearray(path.read_bytes())
    data[item.record.body_position + 7] ^= 1
    path.write_bytes(data)
    query = Query(body="hex")
    rows = SalvagedRows([root], query)
    assert item.start not in {row.physical_offset for row in rows}
    rows = SalvagedRows([root], query, bad_bodies=True)
    shown = {row.physical_offset: row for row in rows}
    assert shown[item.start].crc_ok is False
    assert len(rows.losses) == 1


def test_lost_messages_are_identified_by_the_queues(base_store, kept) -> None:
    root = base_store("normal-stop-533")
    good = [item for item in kept(root) if item.topic == b"OrdersA" and item.start < LOG_FILE]
    path = log_files(root)[0]
    data = bytearray(path.read_bytes())
    for item in good[5:8]:
        data[item.start : item.end] = bytes(item.end - item.start)
    path.write_bytes(data)
    rows = SalvagedRows([root], Query())
    assert len(list(rows)) == rows.count
    lost = rows.lost()
    assert sum(row.messages for row in lost) == 3
    for item in good[5:8]:
        (row,) = [row for row in lost if row.queue_id == item.queue_id]
        assert row.topic == item.topic.decode()
        assert row.first_queue_offset <= item.queue_offset <= row.last_queue_offset


def test_rows_can_be_narrowed(golden_store) -> None:
    root = golden_store("normal-stop-533") / "store"
    rows = list(SalvagedRows([root], Query(topic="ZipA", body="text")))
    assert {row.topic for row in rows} == {"ZipA"}
    assert all(row.body for row in rows)
    assert not list(SalvagedRows([root], Query(begin_ms=1 << 50)))


@pytest.mark.parametrize("name", ["normal-stop-533", "batch-cq-533", "lmq-533", "transaction-498"])
def test_a_new_store_is_a_clean_one(golden_store, kept, tmp_path: Path, name: str) -> None:
    root = golden_store(name) / "store"
    result = recover_store([root], tmp_path / "new", file_size=LOG_FILE)
    assert result.ok, result.findings
    assert result.messages == len(kept(root))
    same = {bytes_of(item) for item in kept(tmp_path / "new")}
    assert same == {bytes_of(item) for item in kept(root)}
    assert verify(StoreDirectory(tmp_path / "new"), VerifyOptions()).findings == []


def bytes_of(item: Any) -> tuple[Any, ...]:
    """The parts of a record that do not depend on its place."""
    message = decode_record(item.data)
    return message.topic, message.queue_id, message.body, message.born_timestamp


def test_a_new_store_out_of_damaged_files_has_no_holes(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    good = [item for item in kept(root) if item.topic == b"OrdersA" and item.start < LOG_FILE]
    path = log_files(root)[0]
    data = bytearray(path.read_bytes())
    data[good[9].start + 4] ^= 0xFF
    path.write_bytes(data)
    log_files(root)[1].unlink()
    result = recover_store([root], tmp_path / "new", file_size=LOG_FILE)
    assert result.ok, result.findings
    assert result.renumbered
    assert result.lost_bytes >= good[9].end - good[9].start
    queues: dict[Any, list[int]] = {}
    for item in kept(tmp_path / "new"):
        queues.setdefault((item.topic, item.queue_id), []).append(item.queue_offset)
    assert all(offsets == list(range(len(offsets))) for offsets in queues.values())


def test_the_same_file_twice_is_one_store(golden_store, kept, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533") / "store"
    copy = tmp_path / "copy"
    shutil.copy(log_files(root)[0], copy)
    result = recover_store([root, copy], tmp_path / "new", file_size=LOG_FILE)
    assert result.duplicates == len([k for k in kept(root) if k.start < LOG_FILE])
    assert result.messages == len(kept(root))


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 100)
    with pytest.raises(StoreError, match="no message"):
        recover_store([tmp_path / "noise"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with pytest.raises(StoreError, match="no such"):
        recover([tmp_path / "missing"])


def test_taken_messages_are_recorded_as_extents(golden_store, tmp_path: Path) -> None:
    """Two overlapping pieces of a log, and one of another: each message once."""
    first = sorted((golden_store("normal-stop-533") / "store" / "commitlog").iterdir())[0]
    other = sorted((golden_store("normal-stop-498") / "store" / "commitlog").iterdir())[0]
    data = first.read_bytes()
    left = tmp_path / "left"
    left.mkdir()
    (left / "a").write_bytes(data[:40000])
    (left / "b").write_bytes(data[20000:])
    shutil.copy(other, left / "c")
    result = recover_store([left], tmp_path / "new", file_size=65536)
    assert result.ok, result.findings
    wanted = {(r.path, r.data) for path in (first, other) for r in recover([path]).records}
    cut = {r.data for r in recover([left]).records}
    assert {data for _, data in wanted} <= cut
    assert result.messages == len(wanted)
    assert result.duplicates > 10


def test_messages_have_the_broker_name_of_their_directory(
    golden_store, golden_expect, tmp_path: Path
) -> None:
    root = golden_store("normal-stop-533") / "store"
    single = tmp_path / "single"
    shutil.copy(log_files(root)[0], single)
    name = golden_expect("normal-stop-533")["brokerName"]
    for sources, names in (
        ([root], {name}),
        ([root / "commitlog"], {name}),
        ([log_files(root)[0]], {name}),
        ([single], {None}),
        ([single, root], {None, name}),
    ):
        rows = list(SalvagedRows(sources, Query()))
        assert {row.broker_name for row in rows} == names


def test_an_only_record_with_the_largest_offset_is_salvaged(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "store")
    for _ in range(3):
        store.put(body=bytes(3000))
    store.write(spare=False)
    path = log_files(store.root)[1]
    data = bytearray(path.read_bytes())
    data[28:36] = b"\x7f" + b"\xff" * 7
    path.write_bytes(data)
    assert len(recover([store.root]).records) == 3
