"""The real broker opens stores written by `mqadmin store repair` and `recover`, and serves them."""

import json
import lzma
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.common.encoding.java_json import loads
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.store_repair import make_plan, repair

LOG_FILE = 65536
SIZES = (
    *("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum"),
    "mapperFileSizeBatchConsumeQueue",
)

Damaged = set[int]  # physical offsets of the records that are lost


def records(root: Path) -> list[Any]:
    return [item.record for item in LogWalk(StoreDirectory(root)) if item.record is not None]


def poke(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def log_file(root: Path, physical_offset: int) -> Path:
    return root / "commitlog" / f"{physical_offset // LOG_FILE * LOG_FILE:020d}"


def flip_bodies(root: Path) -> Damaged:
    """A bit in the bodies of three messages in the middle: Java delivers them, or cuts the log."""
    some = [r for r in records(root) if r.topic == b"OrdersA" and r.body_length > 20][20:60:15]
    for record in some:
        path = log_file(root, record.physical_offset)
        at = record.body_position + 5
        poke(path, at, bytes([path.read_bytes()[at] ^ 0x10]))
    return {record.physical_offset for record in some}


def zero_a_page(root: Path) -> Damaged:
    """A page of a file in the middle zeroed, and the queues of a topic gone after a clean stop."""
    begin = LOG_FILE + 8192
    poke(log_file(root, begin), 8192, bytes(4096))
    shutil.rmtree(root / "consumequeue" / "PaymentsA")
    return {
        record.physical_offset
        for record in records(root.parent / "good")
        if record.physical_offset < begin + 4096
        and record.physical_offset + record.total_size > begin
    }


def lose_everything_derived(root: Path) -> Damaged:
    """Queues, index, checkpoint and topics.json gone, an index in disorder."""
    shutil.rmtree(root / "consumequeue" / "OrdersA")
    shutil.rmtree(root / "consumequeue" / "BatchA" / "1")
    first, second = sorted((root / "index").iterdir())[:2]
    poke(first, 36, struct.pack(">i", 1))
    poke(second, 0, struct.pack(">qqqqii", 5, 4, 1 << 40, 3, -7, 2_000_000))
    (root / "checkpoint").unlink()
    (root / "config" / "topics.json").write_bytes(b"")
    (root / "config" / "topics.json.bak").unlink(missing_ok=True)
    return set()


def short_last_file(root: Path) -> Damaged:
    """The last file cut within a record: neither Java version starts."""
    last = records(root)[-3]
    path = log_file(root, last.physical_offset)
    with path.open("r+b") as file:
        file.truncate(last.position + 30)
    return {r.physical_offset for r in records(root.parent / "good")[-3:]}


def lose_a_log_file(root: Path) -> Damaged:
    log_file(root, LOG_FILE).unlink()
    return {
        record.physical_offset
        for record in records(root.parent / "good")
        if LOG_FILE <= record.physical_offset < 2 * LOG_FILE
    }


def torn_tail(root: Path) -> Damaged:
    """The second half of the last record never reached the disk, and the broker was killed."""
    last = records(root)[-1]
    half = last.total_size // 2
    path = log_file(root, last.physical_offset)
    poke(path, last.position + half, bytes(last.total_size - half))
    (root / "abort").write_bytes(b"")
    return {last.physical_offset}


def lose_all_queues(root: Path) -> Damaged:
    shutil.rmtree(root / "consumequeue")
    return set()


def lose_the_index_and_checkpoint(root: Path) -> Damaged:
    shutil.rmtree(root / "index")
    (root / "checkpoint").unlink()
    return set()


def break_config_with_backups(root: Path) -> Damaged:
    """Truncated files of config/; the .bak contains the previous content."""
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
        path = root / "config" / name
        shutil.copy(path, path.with_name(name + ".bak"))
        os.truncate(path, path.stat().st_size // 2)
    return set()


CASES = [
    ("normal-stop-533", flip_bodies),
    ("normal-stop-498", zero_a_page),
    ("normal-stop-533", lose_everything_derived),
    ("normal-stop-498", short_last_file),
    ("normal-stop-533", lose_a_log_file),
    ("normal-stop-533", torn_tail),
    ("normal-stop-533", lose_all_queues),
    ("normal-stop-498", lose_the_index_and_checkpoint),
    ("normal-stop-533", break_config_with_backups),
]


def settings_of(golden: Path, recorded: str) -> tuple[dict[str, Any], dict[str, Any]]:
    packed = golden / "stores" / f"{recorded}.expect.json.xz"
    expected = json.loads(lzma.decompress(packed.read_bytes()))
    conf = expected["brokerConf"]["store"]
    if isinstance(conf, str):
        conf = dict(line.split("=", 1) for line in conf.splitlines() if "=" in line)
    kept = {name: conf[name] for name in SIZES if name in conf}
    return expected, {**kept, "brokerName": expected["brokerName"], "fileReservedTime": 100000}


@pytest.mark.parametrize(("recorded", "harm"), CASES, ids=[harm.__name__ for _, harm in CASES])
def test_the_java_broker_serves_a_repaired_store(
    java_servers: Any,
    peer_533: Any,
    golden_store: Callable[..., Path],
    golden: Path,
    tmp_path: Path,
    recorded: str,
    harm: Callable[[Path], Damaged],
) -> None:
    folder = golden_store(recorded, copy=True)
    shutil.copytree(folder / "store", folder / "good")
    lost = harm(folder / "store")
    result = repair(make_plan(StoreDirectory(folder / "store")), tmp_path / "repaired")
    assert result.ok, result.findings
    offsets = loads((tmp_path / "repaired" / "config" / "consumerOffset.json").read_bytes())
    good_offsets = loads((folder / "good" / "config" / "consumerOffset.json").read_bytes())
    assert offsets["offsetTable"].keys() == good_offsets["offsetTable"].keys()
    expected, conf = settings_of(golden, recorded)
    for path in (tmp_path / "repaired").rglob("*"):
        os.utime(path)  # old files would be expired

    namesrv = java_servers.namesrv(tmp_path / "ns")
    java = java_servers.broker(tmp_path / "java", tmp_path / "repaired", namesrv, **conf)
    names = {message["topic"] for message in expected["messages"]}
    topics = sorted(name for name in names if name.endswith("A") and not name.startswith("%"))
    ends = {(queue["topic"], queue["queueId"]): queue["maxOffset"] for queue in expected["queues"]}
    # A queue whose last message is lost ends before it.
    lasts = {(r.topic.decode(), r.queue_id): r.physical_offset for r in records(folder / "good")}
    for topic in topics:
        bounds, found = peer_533.dump(namesrv=namesrv, topic=topic)
        seen = {message["physicalOffset"]: message for message in found}
        for message in expected["messages"]:
            if message["topic"] != topic or message["physicalOffset"] in lost:
                continue
            own = seen[message["physicalOffset"]]
            assert own["queueOffset"] == message["queueOffset"]
            assert own["uniqKey"] == message["properties"].get("UNIQ_KEY")
        assert not set(seen) & lost
        for queue, (_, end) in bounds.items():
            if end and lasts[topic, queue] not in lost:
                assert end == ends[topic, queue]
    events = peer_533.produce(namesrv=namesrv, topic="OrdersA", count=8, body="behind-")
    assert all(event["status"] == "SEND_OK" for event in events)
    keyed = next(
        message
        for message in expected["messages"]
        if message["topic"] == "OrdersA"
        and message.get("keys")
        and message["physicalOffset"] not in lost
    )
    answer = peer_533.ask("query", namesrv=namesrv, topic="OrdersA", key=keyed["keys"].split()[0])
    assert any(event["event"] == "message" for event in answer)
    java.stop()


@pytest.mark.parametrize("damaged", [False, True], ids=["whole-files", "damaged-pieces"])
def test_the_java_broker_serves_a_recovered_store(
    java_servers: Any,
    peer_533: Any,
    golden_store: Callable[..., Path],
    tmp_path: Path,
    damaged: bool,
) -> None:
    """A new store out of two CommitLog files, or pieces of them, that are all that is left."""
    folder = golden_store("normal-stop-533")
    left = tmp_path / "left"
    left.mkdir()
    shutil.copy(log_file(folder / "store", 0), left / "one")
    shutil.copy(log_file(folder / "store", 3 * LOG_FILE), left / "two")
    expected = [r for r in records(folder / "store") if r.topic == b"OrdersA"]
    kept = [
        r for r in expected if r.physical_offset < LOG_FILE or r.physical_offset >= 3 * LOG_FILE
    ]
    if damaged:
        data = bytearray((left / "one").read_bytes())
        begin = next(r.physical_offset for r in expected if r.physical_offset > 16384)
        data[begin : begin + 4096] = bytes(4096)
        flipped = next(r for r in kept if r.physical_offset > 30000 and r.body_length)
        data[flipped.body_position + 3] ^= 4
        (left / "one").write_bytes(data[10_000:])  # and without its begin
        torn = flipped.physical_offset
        gone = ((0, 10_000), (begin, begin + 4096), (torn, torn + 1))
        kept = [
            r
            for r in kept
            if not any(
                low < r.physical_offset + r.total_size and r.physical_offset < high
                for low, high in gone
            )
        ]
    result = recover_store([left], tmp_path / "new", file_size=LOG_FILE)
    assert result.ok, result.findings
    assert bool(result.losses) == damaged
    namesrv = java_servers.namesrv(tmp_path / "ns")
    java = java_servers.broker(
        tmp_path / "java",
        tmp_path / "new",
        namesrv,
        mappedFileSizeCommitLog=LOG_FILE,
        mappedFileSizeConsumeQueue=6_000_000,
        maxHashSlotNum=256,
        maxIndexNum=1024,
    )
    _, found = peer_533.dump(namesrv=namesrv, topic="OrdersA")
    assert len(found) == len(kept) > 0
    java.stop()
