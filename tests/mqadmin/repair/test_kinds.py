"""The kinds of damage that real brokers were tried with, after a clean stop and after a crash."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.recover import recover
from mqadmin.repair.store_repair import make_plan, repair

LOG_FILE = 65536
BASE = "normal-stop-498"

Extent = tuple[int, int]
Harm = Callable[[Path, list[Any]], list[Extent]]


def log_file(root: Path, physical_offset: int) -> Path:
    return root / "commitlog" / f"{physical_offset // LOG_FILE * LOG_FILE:020d}"


def poke(root: Path, physical_offset: int, data: bytes) -> None:
    with log_file(root, physical_offset).open("r+b") as file:
        file.seek(physical_offset % LOG_FILE)
        file.write(data)


def peek(root: Path, physical_offset: int) -> int:
    return log_file(root, physical_offset).read_bytes()[physical_offset % LOG_FILE]


def last_start(good: list[Any]) -> int:
    return int(good[-1].start // LOG_FILE * LOG_FILE)


def late(good: list[Any]) -> Any:
    tail = [item for item in good if item.start >= last_start(good)]
    return tail[len(tail) // 2]


def flip_body(root: Path, item: Any) -> list[Extent]:
    at = item.start + item.record.body_position - item.record.position
    at += item.record.body_length // 3
    poke(root, at, bytes([peek(root, at) ^ 0x10]))
    return [(item.start, item.end)]


def with_body(good: list[Any], at: int) -> Any:
    return next(item for item in good[at:] if item.record.body_length)


def flip_body_mid(root: Path, good: list[Any]) -> list[Extent]:
    return flip_body(root, with_body(good, len(good) // 2))


def flip_body_last(root: Path, good: list[Any]) -> list[Extent]:
    return flip_body(root, with_body(good, good.index(late(good))))


def flip_size(root: Path, good: list[Any]) -> list[Extent]:
    item = late(good)
    poke(root, item.start + 2, bytes([peek(root, item.start + 2) ^ 0x01]))
    return [(item.start, item.end)]


def zero_page(root: Path, good: list[Any]) -> list[Extent]:
    at = last_start(good) + 4096
    poke(root, at, bytes(4096))
    return [(at, at + 4096)]


def short_last(root: Path, good: list[Any]) -> list[Extent]:
    item = late(good)
    os.truncate(log_file(root, item.start), (item.start + item.end) // 2 % LOG_FILE)
    return [(item.start, 1 << 40)]


def torn_tail(root: Path, good: list[Any]) -> list[Extent]:
    item = good[-1]
    half = (item.end - item.start) // 2
    poke(root, item.start + half, bytes(item.end - item.start - half))
    return [(item.start, item.end)]


def no_cq(root: Path, good: list[Any]) -> list[Extent]:
    shutil.rmtree(root / "consumequeue")
    return []


def no_one_cq(root: Path, good: list[Any]) -> list[Extent]:
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    return []


def bad_index(root: Path, good: list[Any]) -> list[Extent]:
    first, second = sorted((root / "index").iterdir())[:2]
    with second.open("r+b") as file:
        file.write(struct.pack(">qqqqii", 5, 4, 1 << 40, 3, -7, 2_000_000))
    with first.open("r+b") as file:
        file.seek(36)
        file.write(struct.pack(">i", 1))
    return []


def short_offsets(root: Path, good: list[Any]) -> list[Extent]:
    path = root / "config" / "consumerOffset.json"
    shutil.copy(path, path.with_name("consumerOffset.json.bak"))
    os.truncate(path, path.stat().st_size * 2 // 3)
    return []


def empty_topics(root: Path, good: list[Any]) -> list[Extent]:
    (root / "config" / "topics.json").write_bytes(b"")
    (root / "config" / "topics.json.bak").unlink(missing_ok=True)
    return []


def no_checkpoint(root: Path, good: list[Any]) -> list[Extent]:
    (root / "checkpoint").unlink()
    return []


def hole(root: Path, good: list[Any]) -> list[Extent]:
    names = sorted((root / "commitlog").iterdir())
    gone = names[len(names) // 2]
    gone.unlink()
    return [(int(gone.name), int(gone.name) + LOG_FILE)]


def no_first(root: Path, good: list[Any]) -> list[Extent]:
    log_file(root, 0).unlink()
    return [(0, LOG_FILE)]


def short_cq(root: Path, good: list[Any]) -> list[Extent]:
    os.truncate(sorted((root / "consumequeue" / "OrdersA" / "0").iterdir())[-1], 500)
    return []


KINDS: list[Harm] = [
    *(flip_body_mid, flip_body_last, flip_size, zero_page, short_last, torn_tail, no_cq),
    *(no_one_cq, bad_index, short_offsets, empty_topics, no_checkpoint, hole, no_first, short_cq),
]
# As after the expiry of a file: nothing is wrong with that.
RIGHT = {no_first}


@pytest.mark.parametrize("crashed", [False, True], ids=["clean", "abort"])
@pytest.mark.parametrize("harm", KINDS, ids=lambda harm: harm.__name__)
def test_a_kind_of_damage_is_found_and_repaired(
    base_store, kept, fingerprint, tmp_path: Path, harm: Harm, crashed: bool
) -> None:
    root = base_store(BASE)
    good = kept(root)
    extents = harm(root, good)
    if crashed:
        (root / "abort").write_bytes(b"")
    before = fingerprint(root)
    found = verify(StoreDirectory(root), VerifyOptions())
    assert found.summary.ok == (harm in RIGHT), found.findings
    result = repair(make_plan(StoreDirectory(root)), tmp_path / "out")
    assert result.ok, result.findings
    assert result.summary.state == "clean"

    def outside(item: Any) -> bool:
        return not any(begin < item.end and item.start < end for begin, end in extents)

    wanted = {item.start: item.data for item in good if outside(item)}
    assert {item.start: item.data for item in kept(tmp_path / "out")} == wanted
    rescued = {item.data for item in recover([root]).records}
    assert set(wanted.values()) <= rescued
    assert fingerprint(root) == before
