"""Configuration, checkpoint, queueEnds.json and markers against log and queues."""

import json
import os
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.state import LOCK_TEXT
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.config_checks import (
    Settings,
    read_settings,
)
from mqadmin.system_topics.delay_levels import DELAY_LEVELS, parse_levels
from tests.support.made_store import NOW, MadeStore
from tests.support.store_units import encode_unit

LAST = NOW + 59_000  # storeTimestamp of the last message of the sound store
OFFSETS = "config/consumerOffset.json"


def write_json(store: MadeStore, name: str, value: object) -> None:
    path = store.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


# ---- settings


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("1s 5m 2h 1d", [1000, 300_000, 7_200_000, 86_400_000]),
        ("  10s ", [10_000]),
        ("x 5 s 1w -1s", [0, 0, 0, 0, 0]),
        ("", []),
    ],
)
def test_delay_levels_are_parsed_with_their_units(text: str, delays: list[int]) -> None:
    assert parse_levels(text) == delays


def test_the_default_has_18_increasing_levels() -> None:
    levels = parse_levels(DELAY_LEVELS)
    assert len(levels) == 18
    assert levels == sorted(set(levels))
    assert levels[0] == 1000


@pytest.mark.parametrize("inside", [True, False])
def test_the_broker_conf_of_this_store_is_read(sound: MadeStore, inside: bool) -> None:
    folder = sound.root if inside else sound.root.parent
    (folder / "other.conf").write_text("storePathRootDir=/elsewhere\nmessageDelayLevel=7s\n")
    (folder / "unrelated.conf").write_text("messageDelayLevel=8s\n")
    (folder / "nginx.conf").write_text("root C:\\users;\n")
    assert read_settings(StoreDirectory(sound.root)) == Settings()
    (folder / "zz.conf").write_text(
        f"storePathRootDir={sound.root}\nmessageIndexEnable=TRUE \nmessageDelayLevel=1s 9s\n"
        "mappedFileSizeCommitLog= 4096\n"
    )
    settings = read_settings(StoreDirectory(sound.root))
    assert (settings.index_enabled, settings.delay_levels) == (True, "1s 9s")
    assert settings.number("mappedFileSizeCommitLog") == 4096
    assert settings.number("messageDelayLevel") == 0
    assert settings.number("missing") == 0


def test_a_relative_store_path_is_relative_to_the_file(sound: MadeStore) -> None:
    (sound.root.parent / "broker.conf").write_text("storePathRootDir=store\nmessageDelayLevel=3s\n")
    assert read_settings(StoreDirectory(sound.root)).delay_levels == "3s"


# ---- files of config/


def test_a_file_that_only_its_backup_replaces_is_a_warning(sound: MadeStore, check) -> None:
    path = sound.root / "config" / "topics.json"
    path.rename(path.with_name("topics.json.bak"))
    assert check(sound.root).found == [("config", "warning", "config/topics.json", None, None)]


def test_missing_topics_are_an_error_while_queues_exist(sound: MadeStore, check) -> None:
    (sound.root / "config" / "topics.json").unlink()
    assert check(sound.root).found == [("config", "error", "config/topics.json", None, None)]


def test_a_file_without_its_table_is_an_error(sound: MadeStore, check) -> None:
    write_json(sound, "config/topics.json", {"dataVersion": {}})
    kinds = {(one.kind, one.severity, one.path) for one in check(sound.root).found}
    assert ("config", "error", "config/topics.json") in kinds


@pytest.mark.parametrize("text", [b"{", b"[1]x", b"\xff\xfe"])
def test_an_unreadable_backup_of_a_good_file_is_a_notice(
    sound: MadeStore, check, text: bytes
) -> None:
    (sound.root / "config" / "topics.json.bak").write_bytes(text)
    found, result = check(sound.root)
    assert found == [("configBackup", "notice", "config/topics.json.bak", None, None)]
    assert result.summary.ok


def test_a_queue_of_an_unknown_topic_is_a_warning(sound: MadeStore, check) -> None:
    sound.queues = {key: units for key, units in sound.queues.items() if key[0] == "TopicA"}
    sound.write_topics()
    assert check(sound.root).found == [
        ("topicUnknown", "warning", "config/topics.json", None, None)
    ]


# ---- offsets


@pytest.mark.parametrize(("offset", "reported"), [(0, False), (20, False), (21, True)])
def test_a_consumer_offset_past_the_end_of_its_queue_is_a_warning(
    sound: MadeStore, check, offset: int, reported: bool
) -> None:
    write_json(sound, OFFSETS, {"offsetTable": {"TopicA@group": {"0": offset}}})
    expected = [("offset", "warning", OFFSETS, None, None)] if reported else []
    assert check(sound.root).found == expected


def test_offsets_of_deleted_topics_are_ignored(sound: MadeStore, check) -> None:
    write_json(sound, OFFSETS, {"offsetTable": {"Gone@g": {"0": 99}}})
    assert check(sound.root).found == []


@pytest.mark.parametrize("table", [{"TopicA@g": {"x": 9}}, {"TopicA@g": {"0": "y"}}, {"B@g": 5}, 7])
def test_offsets_that_brokers_refuse_are_an_error(sound: MadeStore, check, table: object) -> None:
    write_json(sound, OFFSETS, {"offsetTable": table})
    assert check(sound.root).found == [("config", "error", OFFSETS, None, None)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("delayOffset.json", {"offsetTable": {"x": 99}}),
        ("topics.json", {"topicConfigTable": {"TopicA": 7}}),
        ("subscriptionGroup.json", {"subscriptionGroupTable": []}),
    ],
)
def test_other_files_that_brokers_refuse_are_an_error(
    sound: MadeStore, check, name: str, content: object
) -> None:
    write_json(sound, f"config/{name}", content)
    found = [row for row in check(sound.root).found if row[0] == "config"]
    assert ("config", "error", f"config/{name}", None, None) in found


def test_only_offsets_of_the_requested_topic_are_compared(sound: MadeStore, check) -> None:
    write_json(sound, OFFSETS, {"offsetTable": {"TopicA@g": {"0": 99}}})
    assert check(sound.root, topic="TopicB").found == []
    assert [one.kind for one in check(sound.root, topic="TopicA").found] == ["offset"]


def test_an_lmq_offset_past_the_end_is_a_warning(tmp_path: Path, check) -> None:
    store = MadeStore(tmp_path / "store")
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
    place = store.put(properties=properties)
    store.queues["%LMQ%a", 0] = [encode_unit(place, store.places[0][1], 2598919)]
    store.write_all()
    assert check(store.root).found == []
    name = "config/lmqConsumerOffset.json"
    write_json(store, name, {"lmqOffsetTable": {"%LMQ%a@g": 2}})
    assert check(store.root).found == [("offset", "warning", name, None, None)]


def delayed(tmp_path: Path, delays: list[int], level: int = 3) -> MadeStore:
    """A store with one message of a delay level per entry of ``delays`` (ms)."""
    store = MadeStore(tmp_path / "store", file_size=16384)
    topic, queue_id = "SCHEDULE_TOPIC_XXXX", level - 1
    for number, delay in enumerate(delays):
        place = store.put(topic, queue_id, properties={"DELAY": str(level)})
        stored = NOW + number * 1000
        store.queues[topic, queue_id][number] = encode_unit(
            place, store.places[-1][1], stored + delay
        )
    store.write_all()
    return store


def test_the_delay_of_the_level_has_no_finding(tmp_path: Path, check) -> None:
    assert check(delayed(tmp_path, [10_000] * 5).root).found == []


def test_a_delay_of_no_whole_second_is_reported_at_its_unit(tmp_path: Path, check) -> None:
    store = delayed(tmp_path, [10_000, 10_000, 10_004, 10_000])
    (finding,) = check(store.root).found
    assert (finding.kind, finding.severity) == ("deliverTime", "error")
    assert (finding.physical_offset, finding.length) == (40, 20)
    assert finding.path.startswith("consumequeue/SCHEDULE_TOPIC_XXXX/2/")


def test_another_delay_of_whole_seconds_may_be_an_earlier_setting(tmp_path: Path, check) -> None:
    """Unless broker.conf contains the levels, or a single message has it."""
    store = delayed(tmp_path, [10_000, 10_000, 7_000, 7_000])
    assert check(store.root).found == []
    (store.root / "broker.conf").write_text(
        f"storePathRootDir={store.root}\nmessageDelayLevel=1s 5s 10s\n"
    )
    assert [one.kind for one in check(store.root).found] == ["deliverTime"]


def test_a_single_delay_of_another_length_is_reported(tmp_path: Path, check) -> None:
    store = delayed(tmp_path, [10_000, 10_000, 7_000])
    assert [one.kind for one in check(store.root).found] == ["deliverTime"]


def test_a_delivery_time_replaced_by_the_tags_hash_is_reported(tmp_path: Path, check) -> None:
    store = delayed(tmp_path, [10_000] * 4)
    place = store.record_of("SCHEDULE_TOPIC_XXXX", 2, 1)
    store.poke_unit("SCHEDULE_TOPIC_XXXX", 2, 1, encode_unit(*place, 2598919))
    (finding,) = check(store.root).found
    assert (finding.kind, finding.physical_offset) == ("deliverTime", 20)


@pytest.mark.parametrize(("offset", "reported"), [(4, False), (5, True)])
def test_a_delay_offset_past_the_end_of_its_level_is_a_warning(
    tmp_path: Path, check, offset: int, reported: bool
) -> None:
    store = delayed(tmp_path, [10_000] * 4)
    name = "config/delayOffset.json"
    write_json(store, name, {"offsetTable": {"3": offset}})
    expected = [("delayOffset", "warning", name, None, None)] if reported else []
    assert check(store.root).found == expected


# ---- checkpoint, queueEnds.json


def test_a_missing_checkpoint_is_a_warning_if_the_log_has_records(sound: MadeStore, check) -> None:
    (sound.root / "checkpoint").unlink()
    assert check(sound.root).found == [("checkpoint", "warning", "checkpoint", None, None)]


def test_a_directory_in_place_of_the_checkpoint_is_reported(sound: MadeStore, check) -> None:
    (sound.root / "checkpoint").unlink()
    (sound.root / "checkpoint").mkdir()
    found = check(sound.root).found
    assert {one[0] for one in found} == {"checkpoint", "unreadable"}
    assert {one[1:] for one in found} == {("error", "checkpoint", None, None)}


def test_a_new_store_of_our_broker_may_have_no_checkpoint(sound: MadeStore, check) -> None:
    (sound.root / "checkpoint").unlink()
    (sound.root / "abort").write_bytes(b"")
    write_json(sound, "queueEnds.json", {"logEnd": 0, "queues": {}})
    assert check(sound.root).found == []


@pytest.mark.parametrize(
    "checkpoint",
    [
        Checkpoint(LAST + 1, NOW, 0),
        Checkpoint(NOW, LAST + 1, 0),
        Checkpoint(NOW, NOW, LAST + 1),
    ],
)
def test_a_time_past_the_newest_message_is_a_warning(
    sound: MadeStore, check, checkpoint: Checkpoint
) -> None:
    (sound.root / "checkpoint").write_bytes(encode_checkpoint(checkpoint))
    assert check(sound.root).found == [("checkpoint", "warning", "checkpoint", None, None)]


def test_times_up_to_the_newest_message_are_sound(sound: MadeStore, check) -> None:
    (sound.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(LAST, LAST, LAST)))
    assert check(sound.root).found == []


@pytest.mark.parametrize("offset", [-1, 1 << 40])
def test_a_confirmed_offset_outside_the_log_is_a_warning(
    sound: MadeStore, check, offset: int
) -> None:
    checkpoint = Checkpoint(NOW, NOW, 0)._replace(confirm_physical_offset=offset)
    (sound.root / "checkpoint").write_bytes(encode_checkpoint(checkpoint))
    assert ("checkpoint", "warning", "checkpoint", None, None) in check(sound.root).found


def test_a_later_recorded_end_of_the_log_is_an_error_with_its_losses(
    sound: MadeStore, check
) -> None:
    write_json(
        sound, "queueEnds.json", {"logEnd": sound.end + 500, "queues": {"TopicA": {"0": 23}}}
    )
    found, result = check(sound.root)
    assert ("checkpoint", "error", "queueEnds.json", None, None) in found
    assert ("lost", "error", "queueEnds.json", None, None) in found
    (loss,) = result.losses
    assert (loss.topic, loss.queue_id, loss.messages) == ("TopicA", 0, 3)
    assert (loss.first_queue_offset, loss.last_queue_offset) == (20, 22)


@pytest.mark.parametrize(
    ("end", "abort", "reported"), [(0, False, True), (-100, False, False), (0, True, False)]
)
def test_lost_first_files_of_the_log_are_an_error_after_a_clean_stop_of_our_broker(
    sound: MadeStore, check, end: int, abort: bool, reported: bool
) -> None:
    """A shorter recorded log: another broker used the store last, and may have cleaned it."""
    write_json(sound, "queueEnds.json", {"logMin": 0, "logEnd": sound.end + end, "queues": {}})
    if abort:
        (sound.root / "abort").write_bytes(b"")
    assert check(sound.root).found == []
    (sound.root / "commitlog" / f"{0:020d}").unlink()
    found = check(sound.root).found
    assert (("checkpoint", "error", "queueEnds.json", None, None) in found) is reported
    # Cleaning moves the recorded start.
    write_json(sound, "queueEnds.json", {"logMin": 4096, "logEnd": sound.end, "queues": {}})
    assert not [row for row in check(sound.root).found if row[2] == "queueEnds.json"]


def test_an_unreadable_queue_ends_file_is_a_notice(sound: MadeStore, check) -> None:
    (sound.root / "queueEnds.json").write_text("{")
    assert check(sound.root).found == [("config", "notice", "queueEnds.json", None, None)]


# ---- markers


@pytest.mark.parametrize("text", [b"hello", b"12a"])
def test_an_abort_file_without_a_process_id_is_a_warning(
    sound: MadeStore, check, text: bytes
) -> None:
    (sound.root / "abort").write_bytes(text)
    assert check(sound.root).found == [("state", "warning", "abort", None, None)]


@pytest.mark.parametrize("text", [b"", b" \n", b"4711", b"4711 and more"])
def test_an_abort_file_of_java_or_ours_is_sound(sound: MadeStore, check, text: bytes) -> None:
    """Java 4.9 leaves it empty, 5.x and ours write the process id."""
    (sound.root / "abort").write_bytes(text)
    found, result = check(sound.root)
    assert (found, result.summary.state) == ([], "crashed")


def test_an_abort_folder_is_an_error_that_names_it(sound: MadeStore, check) -> None:
    os.mkdir(sound.root / "abort")
    with pytest.raises(StoreError, match="abort"):
        check(sound.root)


@pytest.mark.parametrize(("text", "reported"), [(b"", False), (LOCK_TEXT, False), (b"x", True)])
def test_a_lock_file_with_another_text_is_a_warning(
    sound: MadeStore, check, text: bytes, reported: bool
) -> None:
    (sound.root / "lock").write_bytes(text)
    expected = [("state", "warning", "lock", None, None)] if reported else []
    assert check(sound.root).found == expected


def test_losses_of_damaged_bodies_are_counted_with_their_queue(sound: MadeStore, check) -> None:
    physical, _ = sound.record_of("TopicB", 1, 4)
    sound.flip(physical + 95)
    found, result = check(sound.root)
    assert [(one.kind, one.physical_offset) for one in found] == [("crc", physical)]
    assert [(row.topic, row.queue_id, row.messages) for row in result.losses] == [("TopicB", 1, 1)]


@pytest.mark.parametrize(
    ("text", "number"),
    [("1000", 1000), (" 7 ", 7), ("", 0), ("-1", 0), ("²", 0), ("1.5", 0), ("0x10", 0)],
)
def test_a_setting_that_is_not_a_number_is_0(text: str, number: int) -> None:
    assert Settings(values={"timerPrecisionMs": text}).number("timerPrecisionMs") == number
    assert Settings().number("timerPrecisionMs") == 0
