"""Consumer offsets: commits, resets, pull offsets, topics and groups."""

import pytest

from broker.common.clock import ManualClock
from broker.server.tables.consumer_offset import (
    COMMITS_PER_VERSION,
    NOT_FOUND,
    ConsumerOffsetManager,
)
from broker.store.format.config import DataVersion


@pytest.fixture
def offsets() -> ConsumerOffsetManager:
    return ConsumerOffsetManager(ManualClock())


def test_unknown_is_not_found(offsets) -> None:
    assert offsets.query("G", "T", 0) == NOT_FOUND
    assert offsets.pulled("G", "T", 0) == NOT_FOUND
    assert offsets.queues("G", "T") == {}
    assert offsets.take_reset("G", "T", 0) is None


def test_last_commit_wins(offsets) -> None:
    offsets.commit("G", "T", 1, 10)
    offsets.commit("G", "T", 1, 7)
    assert offsets.query("G", "T", 1) == 7
    assert offsets.queues("G", "T") == {1: 7}


def test_commits_ask_to_be_written(offsets) -> None:
    assert not offsets.changed
    offsets.commit("G", "T", 0, 1)
    assert offsets.changed


def test_version_rises_with_many_commits(offsets) -> None:
    for number in range(COMMITS_PER_VERSION - 1):
        offsets.commit("G", "T", 0, number)
    assert offsets.data_version.counter == 0
    offsets.commit("G", "T", 0, 1)
    assert offsets.data_version.counter == 1


def test_reset_overrides_until_it_is_taken(offsets) -> None:
    offsets.commit("G", "T", 0, 9)
    offsets.reset("G", "T", 0, 2)
    assert offsets.reset_pending("G", "T", 0)
    assert not offsets.reset_pending("G", "T", 1)
    offsets.commit("G", "T", 0, 9)
    assert offsets.query("G", "T", 0) == 2
    assert offsets.take_reset("G", "T", 0) == 2
    assert offsets.take_reset("G", "T", 0) is None
    assert offsets.query("G", "T", 0) == 9


def test_a_forgotten_queue_has_neither_offset_nor_reset(offsets) -> None:
    offsets.commit("g", "t", 0, 5)
    offsets.reset("g", "t", 1, 7)
    offsets.changed = False
    offsets.forget("g", "t", 1)
    assert (offsets.query("g", "t", 0), offsets.query("g", "t", 1)) == (5, NOT_FOUND)
    assert not offsets.reset_pending("g", "t", 1)
    assert offsets.changed
    offsets.forget("g", "t", 0)
    assert offsets.table == {}
    offsets.changed = False
    offsets.forget("g", "t", 0)
    assert not offsets.changed


def test_resets_of_other_queues_stay(offsets) -> None:
    offsets.reset("G", "T", 0, 2)
    offsets.reset("G", "T", 1, 3)
    offsets.take_reset("G", "T", 0)
    assert offsets.reset_pending("G", "T", 1)


def test_topics_and_groups_are_found_by_the_first_separator(offsets) -> None:
    offsets.commit("G", "T", 0, 1)
    offsets.commit("G", "%RETRY%G", 0, 1)
    offsets.commit("H", "T", 0, 1)
    offsets.table["T@G@broadcast"] = {0: 1}
    assert offsets.topics_of("G") == ["%RETRY%G", "T"]
    assert offsets.groups_of("T") == ["G", "H"]


def test_clone_copies_one_topic(offsets) -> None:
    offsets.commit("G", "T", 0, 1)
    offsets.commit("G", "U", 0, 2)
    offsets.clone("G", "H", "T")
    assert offsets.queues("H", "T") == {0: 1}
    assert offsets.queues("H", "U") == {}
    offsets.commit("G", "T", 0, 5)
    assert offsets.queues("H", "T") == {0: 1}
    offsets.clone("Nobody", "H", "T")
    assert offsets.queues("H", "T") == {0: 1}


def test_deleted_topic_and_group_are_forgotten(offsets) -> None:
    for group in ("G", "H"):
        for topic in ("T", "U"):
            offsets.commit(group, topic, 0, 1)
            offsets.note_pull(f"{topic}@{group}", 0, 1)
            offsets.reset(group, topic, 0, 1)
    offsets.changed = False
    offsets.remove_topic("T")
    assert offsets.topics_of("G") == ["U"]
    assert not offsets.reset_pending("G", "T", 0)
    assert offsets.changed
    offsets.remove_group("G")
    assert offsets.topics_of("G") == []
    assert offsets.topics_of("H") == ["U"]


def test_loading_takes_over_table_and_version(offsets) -> None:
    table = {"T@G": {0: 4}}
    offsets.load(table, DataVersion(counter=7, timestamp=5))
    assert offsets.query("G", "T", 0) == 4
    assert offsets.data_version.to_wire() == {"counter": 7, "stateVersion": 0, "timestamp": 5}
    offsets.commit("G", "T", 0, 5)
    assert table == {"T@G": {0: 4}}
    assert not offsets.reset_pending("G", "T", 0)
