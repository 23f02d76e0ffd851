"""The word after --to."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ConfigError
from mqadmin.admin.offset.offset_file import SavedOffset, SavedOffsets, save_offsets
from mqadmin.admin.offset.target import parse_target

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("earliest", "earliest", 0),
        ("LATEST", "latest", 0),
        ("shift:-100", "shift", -100),
        ("shift:+7", "shift", 7),
        ("offset:1700000000", "offset", 1_700_000_000),
        ("0", "offset", 0),
        ("12345", "offset", 12_345),
        ("1700000000", "offset", 1_700_000_000),
        ("1700000000123", "offset", 1_700_000_000_123),
        ("@1700000000", "time", 1_700_000_000_000),
        ("@1700000000123", "time", 1_700_000_000_123),
        ("time:1700000000", "time", 1_700_000_000_000),
        ("duration:1h", "time", NOW_MS - 3_600_000),
        ("now", "time", NOW_MS),
        ("-2h", "time", NOW_MS - 7_200_000),
        ("2023-11-14T22:13:20Z", "time", NOW_MS),
        ("time:2023-11-14T22:13:20Z", "time", NOW_MS),
    ],
)
def test_words(text, kind, number) -> None:
    target = parse_target(text, NOW_MS)
    assert (target.kind, target.number) == (kind, number)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "shift:", "shift:x", "shift:--1", "offset:-1", "duration:", "1e3"]
)
def test_words_without_a_value_are_refused(text) -> None:
    with pytest.raises(ConfigError):
        parse_target(text, NOW_MS)


def test_a_file_gives_one_offset_per_queue(tmp_path) -> None:
    path = str(tmp_path / "f.json")
    one = SavedOffset(topic="t", broker_name="b", queue_id=1, consumer_offset=7)
    none = SavedOffset(topic="t", broker_name="b", queue_id=2, consumer_offset=None)
    save_offsets(path, SavedOffsets(group="g", offsets=[one, none], created_timestamp=1))
    assert parse_target(f"file:{path}", NOW_MS).offsets == {
        MessageQueue("t", "b", 1): 7,
        MessageQueue("t", "b", 2): None,
    }
