"""The segments of static topics are read from topicQueueMapping.json or its backup."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import RemoteProtocolError
from mqadmin.inspector.configs import decode_mappings
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.static_topics import (
    moved_mappings,
    read_mappings,
    segment_rows,
)
from mqadmin.system_topics.segments import SegmentRow
from tests.support.made_store import MadeStore, mapping_file, segment


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = MadeStore(tmp_path / "store")
    made.put("TopicS", 0)
    root = made.write()
    (root / "config").mkdir(exist_ok=True)
    text = mapping_file(
        TopicS={
            0: [segment(0, "other", end=8), segment(1, "this", logic=10_000)],
            1: [segment(0, "this", queue=1), segment(1, "other", logic=-1)],
        },
        Aother={0: [segment(0, "this")]},
    )
    (root / "config" / "topicQueueMapping.json").write_text(text)
    return root


def rows(root: Path, **query: Any) -> list[SegmentRow | DamageRow]:
    return list(segment_rows(StoreDirectory(root), Query(**query)))


def test_segments_are_listed_by_topic_queue_and_generation(store: Path) -> None:
    found = [row for row in rows(store) if isinstance(row, SegmentRow)]
    assert [(row.topic, row.queue_id, row.gen) for row in found] == [
        ("Aother", 0, 0), ("TopicS", 0, 0), ("TopicS", 0, 1), ("TopicS", 1, 0), ("TopicS", 1, 1)
    ]  # fmt: skip
    assert [row.sends for row in found] == [True, False, True, False, True]
    assert [(row.logic_offset, row.end_offset) for row in found] == [
        (0, None), (0, 8), (10_000, None), (0, None), (None, None)
    ]  # fmt: skip
    assert {row.broker_name for row in found} == {"this", "other"}
    assert {(row.epoch, row.total_queues) for row in found} == {(1000, 2), (1000, 1)}


def test_topic_and_queue_select_segments(store: Path) -> None:
    assert len(rows(store, topic="TopicS")) == 4
    assert len(rows(store, topic="TopicS", queue_id=1)) == 2
    assert rows(store, topic="Absent") == []


@pytest.mark.parametrize(
    "text", ["{", '{"topicQueueMappingInfoMap": {"T": {"hostedQueues": {"x": []}}}}']
)
def test_an_unreadable_file_is_reported_and_its_backup_read(store: Path, text: str) -> None:
    path = store / "config" / "topicQueueMapping.json"
    path.rename(path.with_name(path.name + ".bak"))
    path.write_text(text)
    damage, *found = rows(store)
    assert isinstance(damage, DamageRow)
    assert (damage.kind, damage.severity, damage.path) == ("config", "error", str(path))
    assert len(found) == 5
    file, _, _ = read_mappings(StoreDirectory(store))
    assert file.name == "topicQueueMapping.json.bak"


def test_an_invalid_entry_is_named(store: Path) -> None:
    entry = {"topicQueueMappingInfoMap": {"TopicS": {"epoch": "soon"}}}
    with pytest.raises(RemoteProtocolError, match="TopicS"):
        decode_mappings(json.dumps(entry).encode())


def test_a_store_without_static_topics_has_no_segments(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put()
    assert rows(made.write()) == []


def test_only_the_bounds_of_this_brokers_segments_are_moved(
    store: Path, subtract: Callable[[str, int, int], int]
) -> None:
    text = mapping_file(
        TopicS={0: [segment(0, "this", start=9, end=20), segment(1, "other", logic=10_000)]}
    )
    items = decode_mappings(moved_mappings(text.encode(), subtract))["TopicS"].hosted_queues
    assert items is not None
    mine, other = items[0]
    assert (mine.start_offset, mine.end_offset, mine.logic_offset) == (4, 15, 0)
    assert (other.start_offset, other.end_offset, other.logic_offset) == (0, -1, 10_000)


@pytest.fixture
def subtract() -> Callable[[str, int, int], int]:
    """The first five messages of every queue are lost."""
    return lambda topic, queue_id, offset: max(offset - 5, 0)
