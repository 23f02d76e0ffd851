"""The word after --to."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.errors import ConfigError, ConnectError
from mqadmin.admin.offset.offset_file import SavedOffset, SavedOffsets, save_offsets
from mqadmin.admin.offset.target import UNNAMED, parse_target, target_offsets

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


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "offset:9223372036854775808", "shift:-9223372036854775809"]
)
def test_a_number_beyond_64_bits_is_refused_with_the_range(text) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_target(text, NOW_MS)
    assert "to 9223372036854775807" in refused.value.hint


def test_a_file_gives_one_offset_per_queue(tmp_path) -> None:
    path = str(tmp_path / "f.json")
    one = SavedOffset(topic="t", broker_name="b", queue_id=1, consumer_offset=7)
    none = SavedOffset(topic="t", broker_name="b", queue_id=2, consumer_offset=None)
    save_offsets(path, SavedOffsets(group="g", offsets=[one, none], created_timestamp=1))
    assert parse_target(f"file:{path}", NOW_MS).offsets == {
        MessageQueue("t", "b", 1): 7,
        MessageQueue("t", "b", 2): None,
    }


QUEUES = [MessageQueue("t", "broker-a", number) for number in range(3)]
RANGES = [(5, 20, 10), (0, 0, None), (7, 9, 9)]


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        ("earliest", [5, 0, 7]),
        ("latest", [20, 0, 9]),
        ("offset:12", [12, 12, 12]),
        ("shift:-100", [-90, UNNAMED, -91]),
        ("shift:+3", [13, UNNAMED, 12]),
    ],
)
def test_the_offset_of_each_queue_may_be_outside_its_range(admin, target, offsets) -> None:
    parsed = parse_target(target, NOW_MS)
    assert list(target_offsets(admin, parsed, QUEUES, RANGES)) == offsets


def test_a_file_without_a_queue_leaves_it_unnamed(admin, tmp_path) -> None:
    path = str(tmp_path / "f.json")
    saved = [
        SavedOffset(topic="t", broker_name="broker-a", queue_id=0, consumer_offset=7),
        SavedOffset(topic="t", broker_name="broker-a", queue_id=1, consumer_offset=None),
        SavedOffset(topic="t", broker_name=None, queue_id=2, consumer_offset=3),
    ]
    save_offsets(path, SavedOffsets(group="g", offsets=saved, created_timestamp=1))
    parsed = parse_target(f"file:{path}", NOW_MS)
    assert list(target_offsets(admin, parsed, QUEUES, RANGES)) == [7, None, UNNAMED]


def test_a_time_is_searched_by_each_broker_and_a_failure_is_its_value(
    admin, cluster, broker_a, broker_b
) -> None:
    for _ in range(3):
        broker_a.store("t", 0)
        broker_b.store("t", 0)
        cluster.clock.advance(1_000)
    queues = [MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 0)]
    now_ms = cluster.clock.now_ms()
    admin.routes.get("t")
    broker_b.down = True
    found = target_offsets(admin, parse_target("-2s", now_ms), queues, RANGES[:2])
    assert found[0] == 1
    assert isinstance(found[1], ConnectError)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("shift:x", "not a number of messages: 'shift:x'", "write shift:-100 or shift:+100"),
        ("shift:+-1", "not a number of messages", "write shift:-100"),
        ("shift:" + "9" * 20, "not a number of messages", "write shift:-100"),
        (
            "offset:-1",
            "not a queue offset: 'offset:-1'",
            "write a number from 0 to 9223372036854775807",
        ),
        (
            "offset:" + "9" * 20,
            "not a queue offset",
            "write a number from 0 to 9223372036854775807",
        ),
        ("9" * 20, "not a queue offset", "write a number from 0 to 9223372036854775807"),
        ("soon", "not a place to reset to: 'soon'", "earliest, latest, a time, an offset"),
        ("duration:x", "not a duration", "500ms, 10s"),
    ],
)
def test_each_refusal_names_the_word_and_a_valid_one(text, message, hint) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target(text, NOW_MS)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_target("x" * 1000, NOW_MS)
    assert len(caught.value.message) < 120


def test_kinds_are_case_insensitive_and_blanks_are_ignored() -> None:
    assert parse_target(" Shift: -3 ", NOW_MS).number == -3
    assert parse_target(" Earliest ", NOW_MS).kind == "earliest"
    assert parse_target("OFFSET: 4", NOW_MS).number == 4


def test_any_text_is_a_target_or_refused(rng) -> None:
    characters = "0123456789-+:@ .earlistduhfoTZ²٣"
    kinds = set()
    for _ in range(2_000):
        text = "".join(rng.choices(characters, k=rng.randrange(1, 14)))
        prefix = rng.choice(["", "", "shift:", "offset:", "duration:", "time:"])
        try:
            target = parse_target(prefix + text, NOW_MS)
        except ConfigError:
            continue
        kinds.add(target.kind)
        if target.kind == "offset":
            assert target.number >= 0
    assert kinds <= {"earliest", "latest", "shift", "offset", "time"}
