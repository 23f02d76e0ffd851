"""Cutting the log of a former master: its extra records are kept, and it can follow again."""

import json
from pathlib import Path

import pytest

from broker.common.clock import SystemClock
from broker.errors import ConfigError, StoreError
from broker.message.properties import encode_properties
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.verify.verifier import verify
from mqadmin.repair.divergence import cut, find_divergence

FILE = 64 * 1024


def fill(root: Path, count: int = 200) -> list[tuple[int, int]]:
    """A stopped store; (physical offset, size) of its records."""
    config = MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=FILE,
        mapped_file_size_consume_queue=6000,
        max_hash_slot_num=100,
        max_index_num=1000,
    )
    store = MessageStore(config, clock=SystemClock())
    store.load()
    store.start()
    for number in range(count):
        store.put_message(
            MessageExtBrokerInner(
                topic="Orders",
                queue_id=number % 3,
                body=b"%04d" % number * 200,
                properties=encode_properties({"KEYS": f"k{number}"}),
            )
        )
    store.shutdown()
    return [
        (item.record.physical_offset, item.record.total_size)
        for item in LogWalk(StoreDirectory(str(root)))
        if item.record is not None
    ]


@pytest.mark.parametrize("number", [57, 199])
def test_the_records_after_the_cut_are_in_the_file_and_the_rest_is_a_whole_store(
    tmp_path: Path, number: int
) -> None:
    root = tmp_path / "store"
    places = fill(root)
    before = log_bytes(root)
    store = StoreDirectory(str(root))
    found = find_divergence(store, places[number][0] + 40)
    assert found.cut_at == places[number][0]
    assert found.records == len(places) - number
    result = cut(
        store,
        found,
        output=None,
        backup=tmp_path / "old",
        records_path=tmp_path / "extra.ndjson",
    )
    rows = [json.loads(line) for line in (tmp_path / "extra.ndjson").read_text().splitlines()]
    assert [row["physicalOffset"] for row in rows] == [place[0] for place in places[number:]]
    assert all(row["bodyEncoding"] == "base64" for row in rows)
    assert result.repair.lost_messages == 0
    after = log_bytes(root)
    assert after[: found.cut_at] == before[: found.cut_at]
    assert not any(after[found.cut_at :])
    assert log_bytes(tmp_path / "old") == before
    checked = verify(StoreDirectory(str(root)))
    assert checked.summary.records == number
    assert [row for row in checked.findings if row.severity == "error"] == []


def log_bytes(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))


def test_a_cut_into_a_copy_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "store"
    places = fill(root)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    store = StoreDirectory(str(root))
    cut(
        store,
        find_divergence(store, places[100][0]),
        output=tmp_path / "copy",
        backup=tmp_path / "unused",
        records_path=tmp_path / "extra.ndjson",
    )
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert verify(StoreDirectory(str(tmp_path / "copy"))).summary.records == 100
    kept = b"".join(path.read_bytes() for path in sorted((tmp_path / "copy/damaged").iterdir()))
    assert kept  # the bytes that were cut off


def test_an_offset_outside_the_log_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "store"
    places = fill(root, 10)
    with pytest.raises(ConfigError, match="is not in the log"):
        find_divergence(StoreDirectory(str(root)), places[-1][0] + places[-1][1])
    with pytest.raises(StoreError, match="nothing would be left"):
        find_divergence(StoreDirectory(str(root)), 0)
