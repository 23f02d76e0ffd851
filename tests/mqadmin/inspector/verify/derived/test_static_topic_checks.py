"""Mappings of static topics are compared with themselves, with topics and with queues."""

import json
from pathlib import Path

import pytest

from mqadmin.inspector.configs import decode_mappings
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.plan import make_plan
from mqadmin.repair.store_repair import repair
from tests.support.made_store import MadeStore, mapping_file, segment

FILE = "config/topicQueueMapping.json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of broker "this" with seven messages in each of two queues of TopicS."""
    made = MadeStore(tmp_path / "store")
    for number in range(14):
        made.put("TopicS", number % 2)
    made.write_all()
    return made.root


def put(store: Path, *queues: list[dict[str, object]]) -> None:
    (store / FILE).write_text(mapping_file(TopicS=dict(enumerate(queues))))


def findings(store: Path, topic: str | None = None) -> list[tuple[str, str]]:
    """Severity and text of each finding; the kind is asserted."""
    options = VerifyOptions(columns=False, topic=topic)
    found = verify(StoreDirectory(store), options).findings
    assert {(row.kind, row.path) for row in found} <= {("staticTopic", str(store / FILE))}
    return [(row.severity, row.detail) for row in found]


SOUND = [
    [segment(0, "this"), segment(1, "other", logic=10_000)],
    [segment(0, "other", end=8), segment(1, "this", queue=1, logic=10_000)],
    [segment(0, "other"), segment(1, "other", queue=1, logic=-1)],
    [segment(0, "other", end=8), segment(1, "other", queue=1, logic=8)],
]


def test_a_sound_mapping_has_no_findings(store: Path) -> None:
    put(store, *SOUND)
    assert findings(store) == []


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            [segment(0, "this", queue=16)],
            "queue 16 of this broker does not exist, the topic has 16",
        ),
        ([segment(0, "this", queue=-1)], "segment 0 has queue -1"),
        ([segment(0, "this", start=-3)], "start offset -3"),
        ([segment(0, "other", start=5, end=4)], "ends at offset 4, before its start 5"),
        ([segment(1, "other"), segment(1, "this", logic=9)], "segment 1 follows segment 1"),
        ([segment(2, "other"), segment(1, "this", logic=9)], "segment 1 follows segment 2"),
        (
            [segment(0, "other", logic=50), segment(1, "this", logic=40)],
            "segment 1 starts at logical offset 40, segment 0 at 50",
        ),
        (
            [segment(0, "other", end=9), segment(1, "this", logic=8)],
            "segment 0 ends at logical offset 9, segment 1 starts at 8: they overlap",
        ),
        (
            [segment(0, "this"), segment(1, "other", logic=6)],
            "segment 0 ends at logical offset 7, segment 1 starts at 6: they overlap",
        ),
        (
            [segment(0, "other", logic=-1), segment(1, "this", logic=8)],
            "the logical offset of segment 0 is not decided",
        ),
        ([], "queue 0 has no segments"),
    ],
)
def test_a_wrong_segment_is_an_error(
    store: Path, items: list[dict[str, object]], text: str
) -> None:
    put(store, items)
    ((severity, detail),) = findings(store)
    assert severity == "error"
    assert text in detail
    assert detail.startswith("TopicS: queue 0")


def test_a_segment_that_ends_after_its_queue_is_a_warning(store: Path) -> None:
    put(store, [segment(0, "this", end=8), segment(1, "other", logic=10_000)])
    ((severity, detail),) = findings(store)
    assert severity == "warning"
    assert "ends at offset 8, queue 0 of this broker at 7" in detail


def test_two_logical_queues_cannot_share_a_queue(store: Path) -> None:
    put(store, [segment(0, "this")], [segment(0, "this")])
    assert findings(store) == [("error", "TopicS: queue 1 and queue 0 both use queue 0 of this")]


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("epoch", -1, "epoch -1 is negative"),
        ("topic", "Other", "its mapping is of topic Other"),
        ("totalQueues", 1, "queue 1, of 1 queues"),
    ],
)
def test_a_wrong_field_of_the_mapping_is_an_error(
    store: Path, field: str, value: object, text: str
) -> None:
    file = json.loads(mapping_file(TopicS=dict(enumerate(SOUND[:2]))))
    file["topicQueueMappingInfoMap"]["TopicS"][field] = value
    (store / FILE).write_text(json.dumps(file))
    assert findings(store) == [("error", f"TopicS: {text}")]


def test_a_static_topic_without_a_topic_is_an_error(store: Path) -> None:
    (store / FILE).write_text(mapping_file(Gone={0: [segment(0, "this")]}))
    assert findings(store) == [("error", "Gone: a static topic that is not in topics.json")]
    assert findings(store, topic="TopicS") == []


@pytest.mark.parametrize(
    "text", ["{", '{"topicQueueMappingInfoMap": {"T": {"hostedQueues": {"x": []}}}}']
)
def test_an_unreadable_file_is_one_error(store: Path, text: str) -> None:
    (store / FILE).write_text(text)
    found = verify(StoreDirectory(store), VerifyOptions(columns=False)).findings
    assert [(row.kind, row.severity, row.path) for row in found] == [
        ("config", "error", str(store / FILE))
    ]


# ---- repair


def repaired(store: Path) -> Path:
    output = store.parent / "copy"
    repair(make_plan(StoreDirectory(store)), output)
    return output


def test_a_repair_keeps_the_mappings(store: Path) -> None:
    put(store, *SOUND)
    (store / "consumequeue" / "TopicS" / "0" / "00000000000000000000").write_bytes(b"")
    copy = repaired(store)
    assert (copy / FILE).read_bytes() == (store / FILE).read_bytes()
    assert findings(copy) == []


def test_a_repair_restores_the_mappings_from_their_backup(store: Path) -> None:
    put(store, *SOUND)
    backup = (store / FILE).read_bytes()
    (store / f"{FILE}.bak").write_bytes(backup)
    (store / FILE).write_text("{")
    copy = repaired(store)
    assert (copy / FILE).read_bytes() == backup
    assert findings(copy) == []


def test_a_new_store_takes_the_mappings_of_its_source(store: Path) -> None:
    put(store, *SOUND)
    output = store.parent / "new"
    recover_store([store], output)
    new, old = (decode_mappings((root / FILE).read_bytes()) for root in (output, store))
    assert new["TopicS"].hosted_queues == old["TopicS"].hosted_queues
    assert findings(output) == []
