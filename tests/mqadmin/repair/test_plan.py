"""The steps of a repair: one action per kind of corruption, with its place; nothing is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import StoreError, StorePathError
from broker.store.format.commitlog import file_name
from broker.store.format.state import QUEUE_ENDS
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.repair.plan import RepairPlan, make_plan
from tests.support.made_store import NOW, MadeStore, fingerprint, mapping_file
from tests.support.store_units import encode_unit

TAG_A = 2598919


@pytest.fixture
def made(tmp_path: Path) -> MadeStore:
    """A sound store of 60 messages in 4 queues."""
    store = MadeStore(tmp_path / "store")
    for number in range(60):
        store.put("TopicA" if number % 3 else "TopicB", number % 2)
    store.write_all()
    return store


@pytest.fixture
def plan() -> Callable[[MadeStore], RepairPlan]:
    """``plan(store)``: the plan; the store must be unchanged."""

    def run(store: MadeStore) -> RepairPlan:
        before = fingerprint(store.root)
        found = make_plan(StoreDirectory(store.root))
        assert fingerprint(store.root) == before
        assert all(step.detail for step in found.steps)
        return found

    return run


def steps(found: RepairPlan, *actions: str) -> list[tuple[str, int | None, int | None]]:
    """Action, place and length of the steps, of all or only of ``actions``."""
    return [
        (step.action, step.physical_offset, step.length)
        for step in found.steps
        if not actions or step.action in actions
    ]


def actions(found: RepairPlan) -> list[str]:
    return sorted({step.action for step in found.steps})


REBUILT = ["rebuildIndex", "rebuildQueue", "writeCheckpoint"]


def test_a_sound_store_needs_no_step(made: MadeStore, plan) -> None:
    found = plan(made)
    assert found.steps == []
    assert (found.patches, found.fields, found.gaps, found.rebuild_index) == ([], [], [], False)
    assert (found.rebuild_queues, found.log_end) == (set(), made.end)
    assert found.configs == {"topics.json": "keep"}


@pytest.mark.parametrize("part", ["commitlog", f"commitlog/{file_name(0)}", "index"])
def test_only_a_store_can_be_planned(made: MadeStore, part: str) -> None:
    with pytest.raises(StorePathError, match=part):
        make_plan(StoreDirectory(made.root / part))


def test_a_log_without_a_record_is_an_error(made: MadeStore) -> None:
    for path in (made.root / "commitlog").iterdir():
        path.write_bytes(bytes(4096))
    with pytest.raises(StoreError, match=str(made.root)):
        make_plan(StoreDirectory(made.root))


# ---- log


def test_a_damaged_record_is_covered_by_a_filler(made: MadeStore, plan) -> None:
    begin, size = made.places[20]
    made.poke(begin + 4, b"????")
    found = plan(made)
    assert steps(found, "cover") == [("cover", begin, size)]
    assert found.patches == [(begin, begin + size, "fill")]
    assert actions(found) == ["cover", "lost", *REBUILT]
    assert found.rebuild_queues == {
        (topic, queue) for topic in ("TopicA", "TopicB") for queue in (0, 1)
    }


def test_a_damaged_end_of_a_file_is_covered_by_a_blank_record(made: MadeStore, plan) -> None:
    last = max(offset + size for offset, size in made.places if offset < 4096)
    made.poke(last, b"\xff" * 8)
    found = plan(made)
    assert steps(found, "cover") == [("cover", last, 4096 - last)]
    assert found.patches == [(last, 4096, "blank")]


def test_the_torn_end_of_the_log_becomes_zeros(made: MadeStore, plan) -> None:
    begin, size = made.places[-1]
    made.poke(begin + 80, bytes(size - 80))
    found = plan(made)
    ((action, place, length),) = steps(found, "cut")
    assert (action, place) == ("cut", begin)
    assert 0 < length <= 80
    assert found.log_end == begin
    assert "lost" in actions(found)


def test_a_missing_file_is_inserted_empty(made: MadeStore, plan) -> None:
    (made.root / "commitlog" / file_name(4096)).unlink()
    found = plan(made)
    assert steps(found, "insertFile") == [("insertFile", 4096, 4096)]
    assert (found.gaps, found.patches) == ([4096], [])


def test_a_file_of_a_log_far_away_is_named_before_memory_is_used(
    made: MadeStore, plan, tmp_path: Path
) -> None:
    """Its records and its name agree, so it would take 2^38 files of no messages to reach it."""
    far = MadeStore(tmp_path / "far", start=1 << 50)
    far.put()
    far.put()
    far.write(spare=False)
    name = file_name(1 << 50)
    shutil.copy(far.root / "commitlog" / name, made.root / "commitlog" / name)
    with pytest.raises(StoreError, match=f"{name}: more than 65536 files before it are missing"):
        plan(made)


def test_a_short_file_gets_the_length_of_the_others(made: MadeStore, plan) -> None:
    path = made.root / "commitlog" / file_name(4096)
    path.write_bytes(path.read_bytes()[:2000])
    assert steps(plan(made), "resize") == [("resize", 4096 + 2000, None)]


def test_misnamed_duplicate_and_foreign_files_are_renamed_or_left_out(
    made: MadeStore, plan
) -> None:
    log = made.root / "commitlog"
    shutil.copy(log / file_name(0), log / file_name(40960))
    (log / file_name(4096)).rename(log / file_name(81920))
    (log / "core.1").write_bytes(b"x")
    found = plan(made)
    assert [(step.action, Path(step.target).name) for step in found.steps[:3]] == [
        ("rename", file_name(81920)),
        ("leaveOut", file_name(40960)),
        ("leaveOut", "core.1"),
    ]


# ---- single fields


def test_a_wrong_physical_offset_is_corrected_if_the_unit_proves_the_place(
    made: MadeStore, plan
) -> None:
    begin, size = made.places[20]
    made.poke(begin + 28, (77).to_bytes(8, "big"))
    found = plan(made)
    assert steps(found, "setField", "cover") == [("setField", begin, size)]
    assert found.fields == [(begin + 28, begin.to_bytes(8, "big"))]
    assert found.patches == []


def test_a_wrong_physical_offset_without_a_unit_is_covered(made: MadeStore, plan) -> None:
    begin, size = made.record_of("TopicA", 0, 7)
    made.poke(begin + 28, (77).to_bytes(8, "big"))
    made.poke_unit("TopicA", 0, 7, bytes(20))
    found = plan(made)
    assert steps(found, "setField", "cover") == [("cover", begin, size)]


@pytest.mark.parametrize(
    ("at", "value", "right"),
    [
        (12, (1).to_bytes(4, "big"), (0).to_bytes(4, "big")),  # queueId
        (20, (99).to_bytes(8, "big"), (7).to_bytes(8, "big")),  # queueOffset
        (36, (4).to_bytes(4, "big"), (0).to_bytes(4, "big")),  # sysFlag: prepared
    ],
    ids=["queueId", "queueOffset", "sysFlag"],
)
def test_a_field_that_only_the_unit_contradicts_is_corrected(
    made: MadeStore, plan, at: int, value: bytes, right: bytes
) -> None:
    begin, size = made.record_of("TopicA", 0, 7)
    made.poke(begin + at, value)
    found = plan(made)
    assert steps(found, "setField") == [("setField", begin, size)]
    assert found.fields == [(begin + at, right)]


def test_a_wrong_topic_of_the_same_length_is_corrected(made: MadeStore, plan) -> None:
    begin, size = made.record_of("TopicA", 0, 7)
    path, at = made.file_of(begin)
    place = path.read_bytes().index(b"TopicA", at)
    made.poke(begin - at + place, b"TopicZ")
    found = plan(made)
    assert steps(found, "setField") == [("setField", begin, size)]
    assert found.fields == [(begin - at + place, b"TopicA")]


def test_two_contradicting_fields_are_not_corrected(made: MadeStore, plan) -> None:
    """With more than one difference the unit may be the corrupt one."""
    begin, _ = made.record_of("TopicA", 0, 7)
    made.poke(begin + 12, (5).to_bytes(4, "big"))
    made.poke(begin + 20, (99).to_bytes(8, "big"))
    assert plan(made).fields == []


@pytest.mark.parametrize(("queue_offset", "corrected"), [(0, False), (5, True)])
def test_the_only_unit_of_a_renamed_file_does_not_change_its_record(
    tmp_path: Path, plan, queue_offset: int, corrected: bool
) -> None:
    """The record's queue offset then differs by whole files, of 30 units each."""
    made = MadeStore(tmp_path / "store")
    begin = made.put("TopicA", 0, queue_offset=queue_offset)
    made.put("TopicB", 0)
    made.write()
    queue = made.root / "consumequeue" / "TopicA" / "0"
    (queue / file_name(0)).rename(queue / file_name(3 * 600))
    found = plan(made)
    assert found.fields == ([(begin + 20, (90).to_bytes(8, "big"))] if corrected else [])
    assert ("TopicA", 0) in found.rebuild_queues


def test_an_invalid_time_becomes_that_of_the_record_before(made: MadeStore, plan) -> None:
    begin, size = made.places[20]
    made.poke(begin + 56, (1 << 60).to_bytes(8, "big"))
    found = plan(made)
    assert ("setField", begin, size) in steps(found)
    assert found.fields == [(begin + 56, (NOW + 19_000).to_bytes(8, "big"))]


# ---- queues and index


def test_a_wrong_unit_rebuilds_only_its_queue(made: MadeStore, plan) -> None:
    made.poke_unit("TopicA", 0, 5, encode_unit(3, 100, TAG_A))
    found = plan(made)
    assert found.rebuild_queues == {("TopicA", 0)}
    assert actions(found) == ["rebuildQueue"]


def test_a_missing_queue_is_rebuilt(made: MadeStore, plan) -> None:
    shutil.rmtree(made.root / "consumequeue" / "TopicB" / "1")
    found = plan(made)
    assert [(step.action, step.target) for step in found.steps] == [("rebuildQueue", "TopicB/1")]


def test_queues_that_the_next_start_would_dispatch_to_are_rebuilt(made: MadeStore, plan) -> None:
    """The copy has no abort file: its start dispatches nothing again."""
    made.poke_unit("TopicA", 1, 19, bytes(20))
    (made.root / "abort").write_bytes(b"")
    found = plan(made)
    assert found.rebuild_queues == {("TopicA", 1)}
    assert actions(found) == ["leaveOut", "rebuildQueue"]


def test_a_wrong_index_is_rebuilt_in_its_shape(made: MadeStore, plan) -> None:
    made.write_index(slots=16, capacity=30)
    for path in sorted((made.root / "index").iterdir()):
        if path.stat().st_size != 40 + 16 * 4 + 30 * 20:
            path.unlink()
    path = sorted((made.root / "index").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[40 + 16 * 4 + 20 * 3 + 2] ^= 1
    path.write_bytes(data)
    found = plan(made)
    assert found.rebuild_index
    assert found.index_shape == (16, 30)
    assert actions(found) == ["rebuildIndex", "writeCheckpoint"]


def truncate_index(made: MadeStore, keep: int) -> None:
    """Write IndexFiles of 16 slots and 30 entries; cut all but the last ``keep`` to 10 entries."""
    shutil.rmtree(made.root / "index")
    made.write_index(slots=16, capacity=30)
    paths = sorted((made.root / "index").iterdir())
    for path in paths[: len(paths) - keep]:
        path.write_bytes(path.read_bytes()[: 40 + 16 * 4 + 10 * 20])


def test_truncated_index_files_do_not_determine_the_shape(made: MadeStore, plan) -> None:
    truncate_index(made, keep=1)
    found = plan(made)
    assert (found.rebuild_index, found.index_shape) == (True, (16, 30))


def test_the_configured_shape_precedes_that_of_the_files(made: MadeStore, plan) -> None:
    truncate_index(made, keep=0)
    (made.root / "broker.conf").write_text(
        f"storePathRootDir={made.root}\nmaxHashSlotNum=16\nmaxIndexNum=30\n"
    )
    found = plan(made)
    assert (found.rebuild_index, found.index_shape) == (True, (16, 30))


def test_the_shape_recorded_by_our_broker_counts_if_no_index_file_is_whole(
    made: MadeStore, plan
) -> None:
    truncate_index(made, keep=0)
    (made.root / QUEUE_ENDS).write_text(
        json.dumps({"logEnd": -1, "queues": {}, "sizes": [0, 0, 0, 16, 30]})
    )
    found = plan(made)
    assert (found.rebuild_index, found.index_shape) == (True, (16, 30))


def test_a_rebuilt_index_names_the_settings_that_it_needs(made: MadeStore, plan) -> None:
    shutil.rmtree(made.root / "index")
    step = next(step for step in plan(made).steps if step.action == "rebuildIndex")
    assert step.detail.endswith(
        "maxHashSlotNum=5000000, maxIndexNum=20000000: the defaults, as neither a broker.conf in or"
        " next to the store nor a file of it determines others"
    )


def test_configured_index_settings_are_not_called_defaults(made: MadeStore, plan) -> None:
    truncate_index(made, keep=1)
    step = next(step for step in plan(made).steps if step.action == "rebuildIndex")
    assert step.detail.endswith("maxHashSlotNum=16, maxIndexNum=30")


def test_without_index_files_the_shape_is_that_of_the_configuration(made: MadeStore, plan) -> None:
    shutil.rmtree(made.root / "index")
    (made.root / "broker.conf").write_text(
        f"storePathRootDir={made.root}\nmaxHashSlotNum=500\nmaxIndexNum=2000\n"
    )
    found = plan(made)
    assert (found.rebuild_index, found.index_shape) == (True, (500, 2000))


def test_a_disabled_index_is_not_rebuilt(made: MadeStore, plan) -> None:
    shutil.rmtree(made.root / "index")
    (made.root / "broker.conf").write_text(
        f"storePathRootDir={made.root}\nmessageIndexEnable=false\n"
    )
    found = plan(made)
    assert (found.rebuild_index, found.steps) == (False, [])


def test_a_file_of_another_name_in_the_index_is_left_out(made: MadeStore, plan) -> None:
    (made.root / "index" / "notes.txt").write_bytes(b"x")
    found = plan(made)
    assert [(step.action, Path(step.target).name) for step in found.steps] == [
        ("leaveOut", "notes.txt")
    ]


# ---- configuration and markers


def test_an_unreadable_file_is_restored_from_its_backup(made: MadeStore, plan) -> None:
    path = made.root / "config" / "topics.json"
    shutil.copy(path, path.with_name("topics.json.bak"))
    path.write_bytes(b"{")
    found = plan(made)
    assert found.configs == {"topics.json": "restore"}
    assert actions(found) == ["restoreConfig"]


def test_a_mapping_with_an_invalid_segment_is_restored_from_its_backup(
    made: MadeStore, plan
) -> None:
    path = made.root / "config" / "topicQueueMapping.json"
    path.with_name(path.name + ".bak").write_text(mapping_file())
    path.write_text('{"topicQueueMappingInfoMap":{"S":{"hostedQueues":{"0":[7]}}}}')
    found = plan(made)
    assert found.configs[path.name] == "restore"
    assert actions(found) == ["restoreConfig"]


def test_topics_without_any_readable_file_are_built_from_the_log(made: MadeStore, plan) -> None:
    (made.root / "config" / "topics.json").write_bytes(b"")
    found = plan(made)
    assert found.configs == {"topics.json": "topics"}
    assert actions(found) == ["makeTopics"]


def test_other_unreadable_files_are_left_out(made: MadeStore, plan) -> None:
    (made.root / "config" / "consumerOffset.json").write_bytes(b"[")
    found = plan(made)
    assert found.configs == {"consumerOffset.json": "drop", "topics.json": "keep"}
    assert actions(found) == ["leaveOut"]


def test_offsets_past_the_end_are_clamped(made: MadeStore, plan) -> None:
    (made.root / "config" / "consumerOffset.json").write_text(
        json.dumps({"offsetTable": {"TopicA@g": {"0": 99}}})
    )
    assert actions(plan(made)) == ["clampOffsets"]


def test_offsets_of_lmqs_past_the_end_are_clamped(made: MadeStore, plan) -> None:
    path = made.root / "config" / "lmqConsumerOffset.json"
    path.write_text(json.dumps({"offsetTable": {"TopicA@g": {"0": 99}}}))
    found = plan(made)
    assert [(step.action, step.target) for step in found.steps] == [("clampOffsets", str(path))]


def test_temporary_files_of_config_are_ignored(made: MadeStore, plan) -> None:
    (made.root / "config" / "topics.json.tmp").write_bytes(b"{")
    assert plan(made).steps == []


def test_a_missing_checkpoint_is_written(made: MadeStore, plan) -> None:
    (made.root / "checkpoint").unlink()
    assert actions(plan(made)) == ["writeCheckpoint"]


def test_the_abort_file_of_a_crash_is_left_out(made: MadeStore, plan) -> None:
    (made.root / "abort").write_bytes(b"4711")
    found = plan(made)
    assert [(step.action, Path(step.target).name) for step in found.steps] == [
        ("leaveOut", "abort")
    ]


@pytest.mark.parametrize(
    ("conf", "expected"),
    [("", 600), ("mappedFileSizeConsumeQueue=1200", 600)],
    ids=["from the files", "the files take precedence"],
)
def test_queue_files_keep_their_length(made: MadeStore, plan, conf: str, expected: int) -> None:
    (made.root / "broker.conf").write_text(f"storePathRootDir={made.root}\n{conf}\n")
    assert plan(made).queue_sizes[0] == expected


def test_without_queues_their_length_follows_from_the_configuration(made: MadeStore, plan) -> None:
    shutil.rmtree(made.root / "consumequeue")
    (made.root / "broker.conf").write_text(
        f"storePathRootDir={made.root}\nmappedFileSizeConsumeQueue=1200\n"
    )
    assert plan(made).queue_sizes[0] == 1200


def test_losses_are_listed_by_queue(made: MadeStore, plan) -> None:
    begin, size = made.record_of("TopicA", 0, 7)
    made.poke(begin, bytes(size))
    found = plan(made)
    assert [step.target for step in found.steps if step.action == "lost"] == ["TopicA/0"]
