"""The fast and the plain path have the same results for damaged stores of every kind of traffic."""

import random
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from broker.store.format.commitlog import LogRecord, scan_commitlog
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify

pytestmark = pytest.mark.skipif(not has_columns(), reason="columns need numpy")

STORES = ("transaction-533", "pop-533", "delay-533", "lmq-533", "batch-cq-533", "retry-dlq-533")
ROUNDS = 8

Damage = Callable[[Path, random.Random], object]


def results(root: Path, columns: bool) -> dict[str, object]:
    """Everything that a verification reports except its duration."""
    found = verify(StoreDirectory(root), VerifyOptions(columns=columns))
    return {
        "findings": found.findings,
        "summary": msgspec.structs.replace(found.summary, seconds=0.0),
        "regions": found.damaged_regions,
        "broken": found.broken_queues,
        "lagging": found.lagging_queues,
        "newest": found.newest_timestamp,
        "queues": sorted(found.queues, key=repr),
        "mismatches": sorted(found.mismatches, key=repr),
        "losses": found.losses,
        "deleted": found.deleted,
    }


def agree(root: Path) -> None:
    plain, fast = results(root, columns=False), results(root, columns=True)
    for part, value in plain.items():
        assert fast[part] == value, part


def write_at(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def records(root: Path) -> list[tuple[Path, LogRecord]]:
    return [
        (path, item)
        for path in sorted((root / "commitlog").iterdir())
        for item in scan_commitlog(path.read_bytes(), int(path.name))
        if isinstance(item, LogRecord)
    ]


def flip_bit(path: Path, position: int, rng: random.Random) -> None:
    write_at(path, position, bytes([path.read_bytes()[position] ^ 1 << rng.randrange(8)]))


def damage_a_record(root: Path, rng: random.Random) -> object:
    path, record = rng.choice(records(root))
    position = record.position + rng.randrange(record.total_size)
    flip_bit(path, position, rng)
    return path.name, position


def overwrite_a_field(root: Path, rng: random.Random) -> object:
    path, record = rng.choice(records(root))
    at, form = rng.choice([(12, ">i"), (20, ">q"), (36, ">i"), (56, ">q"), (76, ">q"), (84, ">i")])
    least, most = (-(1 << 31), (1 << 31) - 1) if form == ">i" else (-(1 << 63), (1 << 63) - 1)
    value = rng.choice([0, -1, most, least, rng.randrange(100)])
    write_at(path, record.position + at, struct.pack(form, value))
    return path.name, record.position + at, value


def rewrite_a_body(root: Path, rng: random.Random) -> object:
    """A body of a system topic with another character and its right CRC."""
    chosen = [
        (path, record)
        for path, record in records(root)
        if record.body_length and record.topic.lower().startswith((b"rmq_sys", b"schedule"))
    ]
    if not chosen:
        return damage_a_record(root, rng)
    path, record = rng.choice(chosen)
    data = bytearray(path.read_bytes()[record.position : record.position + record.total_size])
    begin = record.body_position - record.position
    data[begin + rng.randrange(record.body_length)] = rng.choice(b"0123456789,x")
    crc = zlib.crc32(data[begin : begin + record.body_length]) & 0x7FFFFFFF
    struct.pack_into(">i", data, 8, crc)
    write_at(path, record.position, bytes(data))
    return path.name, record.position


def fill_a_region(root: Path, rng: random.Random) -> object:
    path, record = rng.choice(records(root))
    position = record.position + rng.randrange(record.total_size)
    length = min(rng.choice([4, 16, 3 * record.total_size]), path.stat().st_size - position)
    write_at(path, position, rng.choice([b"\0", b"\xff"]) * length)
    return path.name, position, length


def derived_files(root: Path) -> list[Path]:
    folders = ("consumequeue", "batchconsumequeue", "index", "timerlog")
    found = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    return sorted(path for path in found if path.stat().st_size)


def damage_a_derived_file(root: Path, rng: random.Random) -> object:
    path = rng.choice(derived_files(root))
    position = rng.randrange(len(path.read_bytes().rstrip(b"\0")) or 1)
    flip_bit(path, position, rng)
    return path.relative_to(root), position


def cut_or_remove_a_derived_file(root: Path, rng: random.Random) -> object:
    path = rng.choice(derived_files(root))
    if rng.random() < 0.5:
        path.unlink()
        return path.relative_to(root)
    length = rng.randrange(path.stat().st_size)
    path.write_bytes(path.read_bytes()[:length])
    return path.relative_to(root), length


CORRUPTIONS: tuple[Damage, ...] = (
    damage_a_record,
    overwrite_a_field,
    rewrite_a_body,
    fill_a_region,
    damage_a_derived_file,
    cut_or_remove_a_derived_file,
)


@pytest.mark.parametrize("name", STORES)
def test_both_paths_report_the_same_of_a_damaged_store(
    golden_store, tmp_path: Path, rng: random.Random, name: str
) -> None:
    good = golden_store(name) / "store"
    for round_ in range(ROUNDS):
        root = tmp_path / str(round_)
        # The wheel is sparse and large; it takes no part.
        shutil.copytree(good, root, ignore=shutil.ignore_patterns("timerwheel"))
        for damage in rng.choices(CORRUPTIONS, k=rng.randint(1, 3)):
            print(round_, damage.__name__, damage(root, rng))
        agree(root)
        shutil.rmtree(root)


def test_a_lost_queue_of_plain_and_other_records_is_one_finding(golden_store) -> None:
    """Multi-dispatched records take the slow path; RootA/0 contains both kinds."""
    root = golden_store("lmq-533", copy=True) / "store"
    (root / "consumequeue" / "RootA" / "0" / f"{0:020d}").unlink()
    agree(root)
    rows = verify(StoreDirectory(root), VerifyOptions(columns=True)).findings
    (missing,) = [row for row in rows if row.kind == "unitMissing" and "RootA/0" in row.detail]
    assert "30 records with queue offsets 0 to 29" in missing.detail


def test_the_queues_of_a_removed_topic_are_counted_in_log_order(golden_store) -> None:
    root = golden_store("lmq-533", copy=True) / "store"
    shutil.rmtree(root / "consumequeue" / "RootA")
    agree(root)


def test_findings_of_the_log_are_in_its_order(golden_store) -> None:
    """Checks between records and checks of one record report in the same order."""
    root = golden_store("transaction-533", copy=True) / "store"
    found = records(root)
    halves = [record for _, record in found if record.topic == b"RMQ_SYS_TRANS_HALF_TOPIC"]
    committed = next(record for _, record in found if record.prepared_transaction_offset)
    path = found[0][0]
    write_at(path, committed.position + 76, struct.pack(">q", committed.physical_offset))
    write_at(path, halves[-1].body_position, b"\xff")
    agree(root)
    rows = verify(StoreDirectory(root), VerifyOptions(columns=True)).findings
    at = [row.physical_offset for row in rows if row.kind in ("transaction", "crc")]
    assert len(at) == 2
    assert at == sorted(at)
