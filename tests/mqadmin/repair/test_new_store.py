"""A new store of salvaged records: forecast, offsets, transactions, times, configuration."""

import json
from pathlib import Path

import pytest

from broker.common.sysflag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from broker.errors import ConfigError, StoreError
from broker.message.message import MessageExt
from broker.message.properties import decode_properties
from broker.message.record import decode_record
from broker.store.format import config
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.query import Query
from mqadmin.repair.new_store import plan_store, recover_store
from tests.support.made_store import NOW, MadeStore

LOG_FILE = 8192
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"


@pytest.fixture
def made(tmp_path: Path) -> MadeStore:
    return MadeStore(tmp_path / "store")


def messages(root: Path) -> list[MessageExt]:
    """The messages of a log in order; every record must be valid."""
    found = []
    for item in LogWalk(StoreDirectory(root)):
        if item.record is not None:
            assert item.ok
            at = item.record.position
            found.append(decode_record(bytes(item.file.data[at : at + item.record.total_size])))
    return found


def offsets_json(root: Path, table: dict[str, dict[int, int]], name: str = "") -> None:
    path = root / "config" / (name or config.CONSUMER_OFFSET)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config.encode_consumer_offset(config.ConsumerOffsetFile(offsets=table)))


def new_offsets(root: Path) -> dict[str, dict[int, int]]:
    data = (root / "config" / config.CONSUMER_OFFSET).read_bytes()
    return config.decode_consumer_offset(data).offsets


def test_the_forecast_has_the_figures_of_the_recovery(made: MadeStore, tmp_path: Path) -> None:
    for number in range(60):
        made.put("TopicA", number % 3)
    made.write()
    made.flip(made.places[10][0] + 4)
    made.flip(made.places[20][0] + 4)
    sources = [made.root, made.root / "commitlog"]  # every message twice
    plan = plan_store(sources, tmp_path / "new", file_size=LOG_FILE)
    assert not (tmp_path / "new").exists()
    result = recover_store(sources, tmp_path / "new", file_size=LOG_FILE)
    for name in plan.__struct_fields__:
        if name != "bytes":
            assert getattr(plan, name) == getattr(result, name), name
    assert (plan.messages, plan.duplicates, plan.queues) == (58, 58, 3)
    assert plan.lost_messages == 2
    assert plan.bytes == sum(
        one.total_size
        for item in LogWalk(StoreDirectory(tmp_path / "new"))
        if (one := item.record) is not None
    )


def test_the_forecast_refuses_an_output_with_content(made: MadeStore, tmp_path: Path) -> None:
    made.put()
    made.write()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").write_text("kept")
    for call in (plan_store, recover_store):
        with pytest.raises(ConfigError, match="not empty"):
            call([made.root], tmp_path / "new")
    assert (tmp_path / "new" / "file").read_text() == "kept"


def test_a_source_is_never_written_into(made: MadeStore, tmp_path: Path) -> None:
    made.put()
    made.write()
    before = sorted(made.root.rglob("*"))
    for call in (plan_store, recover_store):
        for output in (made.root / "new", made.root / "config" / ".." / "new"):
            with pytest.raises(ConfigError, match="is inside"):
                call([made.root], output)
    assert sorted(made.root.rglob("*")) == before


def test_a_record_longer_than_a_log_file_is_refused_before_and_while_writing(
    made: MadeStore, tmp_path: Path
) -> None:
    made.put(body=b"x" * 3000)
    made.write()
    for call in (plan_store, recover_store):
        with pytest.raises(
            ConfigError, match="does not fit into CommitLog files of 2048"
        ) as caught:
            call([made.root], tmp_path / "new", file_size=2048)
        assert "--file-size" in caught.value.hint
        assert not (tmp_path / "new").exists()


def test_records_fill_files_of_the_given_length(made: MadeStore, tmp_path: Path) -> None:
    for _ in range(50):
        made.put()
    made.write()
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert result.ok
    paths = sorted((tmp_path / "new" / "commitlog").iterdir())
    assert [int(path.name) for path in paths] == [0, LOG_FILE]
    assert {path.stat().st_size for path in paths} == {LOG_FILE}
    # `bytes` is the length of the log with the blank records at file ends
    assert LOG_FILE < result.bytes < 2 * LOG_FILE
    last = messages(tmp_path / "new")[-1]
    assert last.physical_offset < result.bytes


def test_only_requested_topics_and_times_are_written(made: MadeStore, tmp_path: Path) -> None:
    for number in range(20):
        made.put(f"Topic{'AB'[number % 2]}", 0)
    made.write()
    query = Query(topic="TopicB", begin_ms=NOW + 5000, end_ms=NOW + 12_000)
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE, query=query)
    found = messages(tmp_path / "new")
    assert result.messages == len(found)
    assert {one.topic for one in found} == {"TopicB"}
    assert {one.store_timestamp for one in found} <= set(range(NOW + 5000, NOW + 12_001, 1000))
    assert [one.queue_offset for one in found] == list(range(len(found)))
    assert result.renumbered


def test_a_commit_refers_to_the_new_offset_of_its_half_message(
    made: MadeStore, tmp_path: Path
) -> None:
    for _ in range(3):
        made.put("Lost")
    half = made.put(HALF)
    made.put("TopicA", sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=half)
    made.put("TopicA", sys_flag=TRANSACTION_COMMIT, prepared_transaction_offset=99_999)
    made.write()
    made.flip(made.places[0][0] + 4)
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    found = messages(tmp_path / "new")
    (new_half,) = [one.physical_offset for one in found if one.topic == HALF]
    assert new_half < half
    prepared = [one.prepared_transaction_offset for one in found if one.topic == "TopicA"]
    # a half message that is not among the salvaged ones keeps its old offset
    assert prepared == [new_half, 99_999]


def test_rolled_back_messages_are_not_written(made: MadeStore, tmp_path: Path) -> None:
    made.put("TopicA")
    made.put("TopicA", sys_flag=TRANSACTION_ROLLBACK)
    made.put("TopicA", queue_offset=1)
    made.write(queues=False)
    assert recover_store([made.root], tmp_path / "new", file_size=LOG_FILE).messages == 2
    assert [one.queue_offset for one in messages(tmp_path / "new")] == [0, 1]


def test_a_store_of_rolled_back_messages_only_is_an_error_and_leaves_nothing(
    made: MadeStore, tmp_path: Path
) -> None:
    made.put("TopicA", sys_flag=TRANSACTION_ROLLBACK)
    made.write(queues=False)
    with pytest.raises(StoreError, match="no message was found"):
        recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert not (tmp_path / "new").exists()


def test_an_inner_batch_takes_as_many_queue_offsets_as_messages(
    made: MadeStore, tmp_path: Path
) -> None:
    fields = {"sys_flag": INNER_BATCH}
    made.put("Batches", queue_offset=7, properties={"INNER_NUM": "3", "INNER_BASE": "7"}, **fields)
    made.put(
        "Batches", queue_offset=10, properties={"INNER_NUM": "2", "INNER_BASE": "10"}, **fields
    )
    made.put(
        "Batches", queue_offset=12, properties={"INNER_NUM": "?", "INNER_BASE": "12"}, **fields
    )
    made.put(
        "Batches", queue_offset=13, properties={"INNER_NUM": "1", "INNER_BASE": "13"}, **fields
    )
    made.write(queues=False)
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    found = messages(tmp_path / "new")
    assert [one.queue_offset for one in found] == [0, 3, 5, 6]
    bases = [decode_properties(one.properties_raw)["INNER_BASE"] for one in found]
    assert bases == ["0", "3", "5", "6"]


@pytest.mark.parametrize("bad_ms", [-1, 1 << 62])
def test_an_invalid_time_becomes_the_time_before_it_or_the_time_of_birth(
    made: MadeStore, tmp_path: Path, bad_ms: int
) -> None:
    made.put(store_timestamp=bad_ms, born_timestamp=NOW - 50)
    made.put(store_timestamp=NOW)
    made.put(store_timestamp=bad_ms)
    made.put(store_timestamp=NOW + 5)
    made.write()
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    times = [one.store_timestamp for one in messages(tmp_path / "new")]
    assert times == [NOW - 50, NOW, NOW, NOW + 5]


def test_a_time_without_any_valid_neighbour_is_0(made: MadeStore, tmp_path: Path) -> None:
    made.put(store_timestamp=-1, born_timestamp=-1)
    made.write()
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert [one.store_timestamp for one in messages(tmp_path / "new")] == [0]


def test_consumer_offsets_point_to_the_same_messages(made: MadeStore, tmp_path: Path) -> None:
    for _ in range(10):
        made.put("TopicA")
    made.write()
    for number in (2, 3):
        made.flip(made.places[number][0] + 4)
    table = {
        "TopicA@Start": {0: 0},
        "TopicA@Before": {0: 2},
        "TopicA@Inside": {0: 3},
        "TopicA@After": {0: 6},
        "TopicA@End": {0: 10},
        "TopicA@Beyond": {0: 50},
        "TopicA@OtherQueue": {1: 5},
        "Unknown@Group": {0: 5},
    }
    offsets_json(made.root, table)
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert new_offsets(tmp_path / "new") == {
        "TopicA@Start": {0: 0},
        "TopicA@Before": {0: 2},  # the next message that was kept
        "TopicA@Inside": {0: 2},
        "TopicA@After": {0: 4},
        "TopicA@End": {0: 8},
        "TopicA@Beyond": {0: 8},
        "TopicA@OtherQueue": {1: 0},
        "Unknown@Group": {0: 0},
    }


def test_delayed_messages_are_not_delivered_again(made: MadeStore, tmp_path: Path) -> None:
    """Without delayOffset.json a broker delivers all messages of the levels in the log."""
    for level in (1, 1, 1, 3):
        made.put("SCHEDULE_TOPIC_XXXX", level - 1)
    made.write()
    made.flip(made.places[0][0] + 4)
    path = made.root / "config" / config.DELAY_OFFSET
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = config.DelayOffsetFile(offsets={1: 2, 3: 1, 5: 0})
    path.write_text(config.encode_delay_offset(stored))
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    data = (tmp_path / "new" / "config" / config.DELAY_OFFSET).read_bytes()
    assert config.decode_delay_offset(data).offsets == {1: 1, 3: 1, 5: 0}


def test_offsets_of_lmqs_follow_their_messages(made: MadeStore, tmp_path: Path) -> None:
    for _ in range(3):
        made.put("%LMQ%light")
    made.write_all()
    path = made.root / "config" / config.LMQ_CONSUMER_OFFSET
    stored = config.ConsumerOffsetFile(
        offsets={"%LMQ%light@h": {0: 50}}, lmq_offsets={"%LMQ%light@g": 50, "%LMQ%light@i": 1}
    )
    path.write_text(config.encode_consumer_offset(stored))
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    data = (tmp_path / "new" / "config" / config.LMQ_CONSUMER_OFFSET).read_bytes()
    found = config.decode_consumer_offset(data)
    assert found.offsets == {"%LMQ%light@h": {0: 3}}
    assert found.lmq_offsets == {"%LMQ%light@g": 3, "%LMQ%light@i": 1}


def test_offsets_of_a_recreated_topic_count_from_its_recreation(
    made: MadeStore, tmp_path: Path
) -> None:
    for number in (0, 1, 2, 3, 0, 1, 2):
        made.put("TopicA", queue_offset=number)
    made.write(queues=False)
    offsets_json(made.root, {"TopicA@Start": {0: 0}, "TopicA@Second": {0: 1}, "TopicA@End": {0: 3}})
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    first = result.messages - 3
    assert new_offsets(tmp_path / "new") == {
        "TopicA@Start": {0: first},
        "TopicA@Second": {0: first + 1},
        "TopicA@End": {0: first + 3},
    }


def test_unreadable_offsets_are_taken_from_their_backup(made: MadeStore, tmp_path: Path) -> None:
    for _ in range(5):
        made.put("TopicA")
    made.write_all()
    offsets_json(made.root, {"TopicA@G": {0: 4}}, config.CONSUMER_OFFSET + ".bak")
    (made.root / "config" / config.CONSUMER_OFFSET).write_bytes(b"{ cut off")
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert new_offsets(tmp_path / "new") == {"TopicA@G": {0: 4}}


def test_offsets_without_a_readable_copy_are_not_written(made: MadeStore, tmp_path: Path) -> None:
    made.put("TopicA")
    made.write_all()
    for name in (config.CONSUMER_OFFSET, config.CONSUMER_OFFSET + ".bak"):
        (made.root / "config" / name).write_bytes(b"\0" * 40)
    (made.root / "config" / config.SUBSCRIPTION_GROUP).write_bytes(b"")
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert result.ok
    assert sorted(path.name for path in (tmp_path / "new" / "config").iterdir()) == [config.TOPICS]


def topic_queues(root: Path) -> dict[str, tuple[int, int]]:
    table = config.decode_topics((root / "config" / config.TOPICS).read_bytes()).topics
    return {name: (one.read_queue_nums, one.write_queue_nums) for name, one in table.items()}


def test_topics_have_at_least_the_queues_that_have_messages(
    made: MadeStore, tmp_path: Path
) -> None:
    made.put("Known", 0)
    made.write_topics()  # eight queues
    known = topic_queues(made.root)["Known"]
    made.put("Known", known[0] + 3)
    made.put("Unknown", 2)
    made.put("%LMQ%light", 0)
    made.put("SCHEDULE_TOPIC_XXXX", 3, properties={"DELAY": "4"})
    made.write()
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    assert result.messages == 5
    assert topic_queues(tmp_path / "new") == {
        "Known": (known[0] + 4, known[0] + 4),
        "Unknown": (3, 3),
    }


def test_configuration_of_several_sources_is_not_mixed(made: MadeStore, tmp_path: Path) -> None:
    """Offsets of one broker mean nothing in a queue that has messages of two."""
    made.put("TopicA")
    made.write_all()
    offsets_json(made.root, {"TopicA@G": {0: 1}})
    other = MadeStore(tmp_path / "other")
    other.put("TopicA", body=b"another message")
    other.write_all()
    result = recover_store([made.root, other.root], tmp_path / "new", file_size=LOG_FILE)
    assert result.messages == 2
    assert sorted(path.name for path in (tmp_path / "new" / "config").iterdir()) == [config.TOPICS]


def test_dispatched_lmqs_are_built_but_are_not_topics(made: MadeStore, tmp_path: Path) -> None:
    made.put(
        "TopicA",
        properties={"INNER_MULTI_DISPATCH": "%LMQ%one", "INNER_MULTI_QUEUE_OFFSET": "0"},
    )
    made.write()
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    queues = {
        (found.topic, found.queue_id) for found in StoreDirectory(tmp_path / "new").queue_files()
    }
    assert queues == {("TopicA", 0), ("%LMQ%one", 0)}
    assert topic_queues(tmp_path / "new").keys() == {"TopicA"}


def test_the_checkpoint_is_that_of_the_newest_message(made: MadeStore, tmp_path: Path) -> None:
    for _ in range(4):
        made.put()
    made.write()
    recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    data = (tmp_path / "new" / "checkpoint").read_bytes()
    newest = (NOW + 3000).to_bytes(8, "big")
    assert data[:16] == newest * 2


def test_the_result_is_json_with_java_names(made: MadeStore, tmp_path: Path) -> None:
    import msgspec

    made.put()
    made.write()
    result = recover_store([made.root], tmp_path / "new", file_size=LOG_FILE)
    row = json.loads(msgspec.json.encode(result))
    assert {"lostBytes", "deletedMessages", "lostMessages"} <= row.keys()
    assert row["ok"] is True
