"""Growth of a store: counts within a window, rates, and the time until the disk limits."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.errors import ConfigError, StoreError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries import growth as module
from mqadmin.inspector.queries.growth import HOUR_MS, growth
from tests.support.made_store import NOW, MadeStore

BLOCK = 1000


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch):
    """``disk(used, total)``: the log's file system in bytes."""

    def use(used: int, total: int) -> None:
        status = SimpleNamespace(
            f_frsize=BLOCK,
            f_blocks=total // BLOCK,
            f_bfree=(total - used) // BLOCK,
            f_bavail=(total - used) // BLOCK,
        )
        monkeypatch.setattr(module.os, "statvfs", lambda folder: status)

    use(500_000, 1_000_000)
    return use


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    """Two hours of messages: one of TopicA per 10 minutes, one of TopicB per hour."""
    made = MadeStore(tmp_path / "store")
    for number in range(12):
        made.put("TopicA", store_timestamp=NOW + number * HOUR_MS // 6, body=b"x" * 100)
        if number % 6 == 0:
            made.put("TopicB", store_timestamp=NOW + number * HOUR_MS // 6, body=b"y" * 300)
    made.write()
    return made


def test_records_of_the_window_are_counted_by_topic(store: MadeStore, disk) -> None:
    found = growth(StoreDirectory(store.root), NOW, NOW + 2 * HOUR_MS)
    assert found.messages == 14
    assert found.bytes == sum(size for _, size in store.places)
    assert {row.topic: (row.messages, row.messages_per_hour) for row in found.topics} == {
        "TopicA": (12, 6.0),
        "TopicB": (2, 1.0),
    }
    assert found.bytes_per_hour == round(found.bytes / 2, 1)
    assert found.max_physical_offset == store.end


def test_the_window_excludes_its_end(store: MadeStore, disk) -> None:
    first_hour = growth(StoreDirectory(store.root), NOW, NOW + HOUR_MS)
    second_hour = growth(StoreDirectory(store.root), NOW + HOUR_MS, NOW + 2 * HOUR_MS)
    assert (first_hour.messages, second_hour.messages) == (7, 7)


def test_topics_are_ordered_by_bytes_with_their_shares(store: MadeStore, disk) -> None:
    found = growth(StoreDirectory(store.root), NOW, NOW + 2 * HOUR_MS)
    sizes = [row.bytes for row in found.topics]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(row.share for row in found.topics) == pytest.approx(1, abs=0.001)


def test_the_time_to_each_limit_follows_from_the_rate(store: MadeStore, disk) -> None:
    disk(500_000, 1_000_000)
    found = growth(StoreDirectory(store.root), NOW, NOW + 2 * HOUR_MS)
    rate = found.bytes / 2
    assert found.disk_used_ratio == 0.5
    assert found.hours_to_75 == round(250_000 / rate, 1)
    assert found.hours_to_85 == round(350_000 / rate, 1)
    assert found.hours_to_90 == round(400_000 / rate, 1)


def test_a_limit_that_is_reached_has_0_hours(store: MadeStore, disk) -> None:
    disk(870_000, 1_000_000)
    found = growth(StoreDirectory(store.root), NOW, NOW + 2 * HOUR_MS)
    assert (found.hours_to_75, found.hours_to_85) == (0.0, 0.0)
    assert found.hours_to_90 is not None
    assert found.hours_to_90 > 0


def test_a_store_that_does_not_grow_never_reaches_a_limit(store: MadeStore, disk) -> None:
    begin = NOW + 100 * HOUR_MS
    found = growth(StoreDirectory(store.root), begin, begin + HOUR_MS)
    assert (found.messages, found.hours_to_75, found.topics) == (0, None, [])


@pytest.mark.parametrize("length_ms", [0, -1])
def test_an_empty_window_is_a_usage_error(store: MadeStore, length_ms: int) -> None:
    with pytest.raises(ConfigError, match="window"):
        growth(StoreDirectory(store.root), NOW, NOW + length_ms)


def test_a_file_system_without_statistics_is_an_error(store: MadeStore, monkeypatch) -> None:
    def refuse(folder: Path) -> object:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(module.os, "statvfs", refuse)
    with pytest.raises(StoreError, match="commitlog"):
        growth(StoreDirectory(store.root), NOW, NOW + HOUR_MS)
