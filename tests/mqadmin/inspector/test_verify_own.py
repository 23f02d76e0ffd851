"""Stores that our own engine writes verify without findings: open, stopped, crashed, grown."""

import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from broker.common.sysflag import INNER_BATCH
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.queries.queues import unit_rows
from mqadmin.inspector.queries.summary import summarize
from mqadmin.inspector.store_manifest import encode_log_min
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import Verification, VerifyOptions, verify

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
WAYS = [False, True] if has_columns() else [False]


def config(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=65536,
        mapped_file_size_consume_queue=600,
        max_hash_slot_num=50,
        max_index_num=200,
        enable_multi_dispatch=True,
        enable_lmq=True,
    )


def message(rng: random.Random, number: int) -> MessageExtBrokerInner:
    tags = rng.choice(["", "TagA", "TagB", "标签"])
    pieces = [f"UNIQ_KEY\x01U{number:030d}"]
    if tags:
        pieces.append(f"TAGS\x01{tags}")
    if rng.random() < 0.7:
        pieces.append(f"KEYS\x01k{number} {rng.choice(['', 'both', 'ключ'])}".rstrip())
    rng.shuffle(pieces)
    return MessageExtBrokerInner(
        topic=rng.choice(["orders", "payments", "%RETRY%group", "topic-" + "x" * 60]),
        queue_id=rng.randrange(3),
        body=rng.randbytes(rng.choice([0, 1, 40, 300])),
        properties=("\x02".join(pieces) + "\x02").encode(),
        flag=number % 5,
        sys_flag=0,
        born_timestamp=1_700_000_000_000 + number,
        born_host=HOST,
        store_host=HOST,
    )


def put_orders(store: MessageStore, rng: random.Random, messages: int) -> None:
    """Put messages to queue 0 of one topic."""
    for number in range(messages):
        sent = message(rng, number)
        sent.topic, sent.queue_id = "orders", 0
        assert store.put_message(sent).status.name == "PUT_OK"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[MessageStore]:
    store = MessageStore(config(tmp_path / "store"))
    store.load()
    store.start()
    yield store
    store.shutdown()


def look(root: Path, way: bool) -> Verification:
    return verify(StoreDirectory(root), VerifyOptions(columns=way))


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_store_has_no_findings(opened: MessageStore, tmp_path: Path, way: bool) -> None:
    assert look(tmp_path / "store", way).findings == []
    opened.shutdown()
    assert look(tmp_path / "store", way).findings == []


@pytest.mark.parametrize("way", WAYS)
def test_transaction_bits_of_clients_are_not_findings(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    """Sent in a plain message: PREPARED and ROLLBACK records get no unit, COMMIT has no half."""
    for number in range(300):
        sent = message(rng, number)
        sent.sys_flag = rng.choice((0, 0x4, 0x8, 0xC))
        assert opened.put_message(sent).status.name == "PUT_OK"
    assert look(tmp_path / "store", way).findings == []
    opened.shutdown()
    assert look(tmp_path / "store", way).findings == []


@pytest.mark.parametrize("sys_flag", [0x4, 0xC])
def test_a_record_without_a_unit_reserves_no_space_for_one(
    opened: MessageStore, rng: random.Random, tmp_path: Path, sys_flag: int
) -> None:
    sent = message(rng, 1)
    sent.topic, sent.sys_flag = "orders", sys_flag
    assert opened.put_message(sent).status.name == "PUT_OK"
    assert not list((tmp_path / "store" / "consumequeue").glob("orders/*/*"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("units", [0, 30])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_file_that_a_failed_put_created_is_not_a_finding(
    opened: MessageStore, rng: random.Random, tmp_path: Path, units: int, stopped: bool, way: bool
) -> None:
    """A put reserves space for its unit; if the log then has none, a file of 30 units is empty."""
    put_orders(opened, rng, units)
    queues = opened.queue_table
    queues.queue(queues.topic("orders"), 0).ensure_capacity(units)
    folder = tmp_path / "store" / "consumequeue" / "orders" / "0"
    assert len(list(folder.iterdir())) == 1 + units // 30
    if stopped:
        opened.shutdown()
    root = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", root)
    assert look(root, way).findings == []
    assert look(root, way).summary.units == units
    rows = list(unit_rows(StoreDirectory(root)))
    assert [getattr(row, "queue_offset", row) for row in rows] == list(range(units))
    again = MessageStore(config(root))
    again.load()
    again.shutdown()
    assert look(root, way).findings == []


@pytest.mark.parametrize("way", WAYS)
def test_open_and_stopped_stores_have_no_findings(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    for number in range(700):
        assert opened.put_message(message(rng, number)).status.name == "PUT_OK"
    found = look(tmp_path / "store", way)
    assert found.findings == []
    assert found.summary.state == "running"
    assert found.summary.records == 700
    opened.shutdown()
    found = look(tmp_path / "store", way)
    assert found.findings == []
    assert (found.summary.state, found.summary.units) == ("clean", 700)
    assert found.summary.keys == found.summary.keys_indexed > 700


def test_a_checkpoint_that_the_broker_is_creating_is_not_a_finding(
    opened: MessageStore, rng: random.Random, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    opened.put_message(message(rng, 1))
    (root / "checkpoint").write_bytes(b"")
    assert look(root, False).findings == []
    assert summarize(StoreDirectory(root))[1] == []
    shutil.copytree(root, tmp_path / "copy")  # not of a running broker
    assert [row.kind for row in look(tmp_path / "copy", False).findings] == ["checkpoint"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("messages", [0, 20])
@pytest.mark.parametrize(
    "name",
    [
        "commitlog/NEXT",
        "consumequeue/orders/0/00000000000000000000",
        "consumequeue/orders/0/00000000000000000600",
        "index/20991126101530123",
        "timerlog/00000000000000000000",
        "config/timercheck",
        "timerwheel",
    ],
)
def test_a_file_that_the_broker_is_creating_is_not_a_finding(
    opened: MessageStore, rng: random.Random, tmp_path: Path, name: str, messages: int, way: bool
) -> None:
    """A broker creates a file empty, and only then gives it its length."""
    put_orders(opened, rng, messages)
    name = name.replace("NEXT", "00000000000000065536" if messages else "00000000000000000000")
    path = tmp_path / "store" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    if path.parent.name == "config":
        (path.parent / "topics.json").write_text('{"topicConfigTable": {"orders": {}}}')
    assert look(tmp_path / "store", way).findings == []
    assert summarize(StoreDirectory(tmp_path / "store"))[1] == []
    if not path.stat().st_size:
        path.unlink()


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_store_at_work_is_a_crashed_one(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    for number in range(300):
        opened.put_message(message(rng, number))
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    found = look(tmp_path / "copy", way)
    assert found.findings == []
    assert found.summary.state == "crashed"
    again = MessageStore(config(tmp_path / "copy"))
    again.load()
    again.start()
    for number in range(300, 400):
        again.put_message(message(rng, number))
    again.shutdown()
    found = look(tmp_path / "copy", way)
    assert found.findings == []
    assert found.summary.records == 400


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_found_while_messages_come_in(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    stop = threading.Event()
    failures: list[object] = []
    looked = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            found = look(tmp_path / "store", way)
            failures.extend(found.findings)
            looked.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    number = 0
    rounds = 0
    while rounds < 3:
        for _ in range(120):
            opened.put_message(message(rng, number))
            number += 1
        if looked.wait(5):
            looked.clear()
            rounds += 1
    stop.set()
    watcher.join()
    assert failures == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch", [1, 100])
def test_nothing_is_found_while_the_broker_deletes_expired_files(
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    way: bool,
) -> None:
    """The files are deleted at each moment at which a file is about to be opened."""
    moments = 0
    while deleted_at(moments, batch, tmp_path / str(moments), rng, monkeypatch, way):
        moments += 1
    assert moments > 10


def deleted_at(
    moment: int,
    batch: int,
    folder: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    way: bool,
) -> bool:
    """Verify a store that deletes files when file ``moment`` is opened; False if none is."""
    root = folder / "store"
    settings = structs.replace(config(root), file_reserved_time=0, delete_file_batch_max=batch)
    store = MessageStore(structs.replace(settings, mapped_file_size_commit_log=16_384))
    store.load()
    store.start()
    for number in range(150):
        store.put_message(message(rng, number))
    store.flush()
    store.worker.drain()  # loading the pages of a file changes its time, by which it expires
    real = os.open
    opens = moment

    def count(path: str, flags: int, *arguments: int) -> int:
        nonlocal opens
        opens -= 1
        if opens == -1:
            report = store.clean_expired(manual=True)
            assert len(report.removed_commit_log_files) >= min(batch, 2)
        return real(path, flags, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", count)
        found = look(root, way)
    store.shutdown()
    assert found.findings == [], moment
    shutil.rmtree(folder)
    return opens < 0


@pytest.mark.parametrize("way", WAYS)
def test_a_deleted_topic_that_comes_back_has_no_findings(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    for number in range(200):
        opened.put_message(message(rng, number))
    opened.delete_topics(["orders"])
    for number in range(200, 300):
        opened.put_message(message(rng, number))
    opened.shutdown()
    config_folder = tmp_path / "store" / "config"
    config_folder.mkdir(exist_ok=True)
    entry = '{"readQueueNums":3,"writeQueueNums":3,"perm":6}'
    names = ["orders", "payments", "%RETRY%group", "topic-" + "x" * 60]
    table = ",".join(f'"{name}":{entry}' for name in names)
    (config_folder / "topics.json").write_text(f'{{"topicConfigTable":{{{table}}}}}')
    found = look(tmp_path / "store", way)
    assert found.findings == []
    assert found.summary.before_recreation > 20


def put_batches(store: MessageStore, count: int) -> None:
    store.queue_table.set_batch_topics(["Batch"])
    for number in range(count):
        inner = MessageExtBrokerInner(
            "Batch", 0, b"%d" % number, b"INNER_NUM\x013\x02", sys_flag=INNER_BATCH
        )
        assert store.put_message(inner).physical_offset >= 0


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize("way", WAYS)
def test_a_recreated_batch_topic_has_no_findings(
    opened: MessageStore, tmp_path: Path, way: bool, recorded: bool
) -> None:
    """A slave, as Java, has no record of a deletion."""
    put_batches(opened, 10)
    end = opened.max_physical_offset
    opened.delete_topics(["Batch"])
    put_batches(opened, 3)
    opened.shutdown()
    if not recorded:
        path = tmp_path / "store" / "queueEnds.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "deleted": {}}))
    found = look(tmp_path / "store", way)
    assert [one.kind for one in found.findings] == []
    assert found.summary.before_recreation == 10
    assert 0 < found.deleted[b"Batch"] <= end


@pytest.mark.parametrize("way", WAYS)
def test_a_torn_end_is_a_warning_after_a_crash_and_gone_after_recovery(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    for number in range(100):
        opened.put_message(message(rng, number))
    end = opened.max_physical_offset
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    path = tmp_path / "copy" / "commitlog" / f"{end // 65536 * 65536:020d}"
    data = bytearray(path.read_bytes())
    at = end % 65536
    half = data[:60]
    data[at : at + 60] = half[:28] + end.to_bytes(8, "big") + half[36:]
    path.write_bytes(data)
    found = look(tmp_path / "copy", way)
    assert [row.severity for row in found.findings] == ["warning"]
    again = MessageStore(config(tmp_path / "copy"))
    again.load()
    again.start()
    again.put_message(message(rng, 100))
    again.shutdown()
    assert look(tmp_path / "copy", way).summary.ok


@pytest.mark.parametrize("way", WAYS)
def test_an_expired_head_and_rebuilt_queues_have_no_findings(
    opened: MessageStore, rng: random.Random, tmp_path: Path, way: bool
) -> None:
    root = tmp_path / "store"
    for number in range(1500):
        opened.put_message(message(rng, number))
    opened.shutdown()
    for path in sorted((root / "commitlog").iterdir())[:2]:
        path.unlink()
    manifest = root / "queueEnds.json"  # as cleaning leaves it
    first = min(int(path.name) for path in (root / "commitlog").iterdir())
    manifest.write_bytes(encode_log_min(manifest.read_bytes(), first))
    found = look(root, way)
    assert found.findings == []
    assert found.summary.units_checked < found.summary.units
    shutil.rmtree(root / "consumequeue" / "payments" / "1")
    again = MessageStore(config(root))
    again.load()
    again.start()
    for number in range(1500, 1600):
        again.put_message(message(rng, number))
    again.shutdown()
    assert look(root, way).findings == []
