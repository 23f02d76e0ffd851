"""Repair: the copy is whole, the source untouched, and every step was planned."""

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.common.encoding.java_json import dump_bytes, loads
from broker.errors import ConfigError, DiskFullError, StoreError, StoreLockedError
from broker.store.config import MessageStoreConfig
from broker.store.format.commitlog import LogRecord, scan_commitlog
from broker.store.format.config import decode_consumer_offset
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.verifier import VerifyOptions, verify
from mqadmin.repair.files import Output
from mqadmin.repair.new_store import recover_store
from mqadmin.repair.plan import RepairPlan
from mqadmin.repair.recover import recover
from mqadmin.repair.store_repair import exchange, make_plan, repair, repair_in_place

LOG_FILE = 65536
INDEX_HEAD = struct.Struct(">qqqqii")


def actions(plan: Any) -> list[str]:
    return [step.action for step in plan.steps]


def plan_of(root: Path) -> Any:
    return make_plan(StoreDirectory(root))


def poke(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def damage_one(root: Path, kept: Any) -> Any:
    """The magic of one record gone."""
    item = [k for k in kept(root) if k.topic == b"OrdersA" and k.start < LOG_FILE][20]
    poke(log_file(root), item.start + 4, b"\0\0\0\1")
    return item


@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo])
def test_an_entry_that_is_not_a_file_is_restored_or_named(
    golden_store, tmp_path: Path, put
) -> None:
    root = golden_store("pop-533", copy=True) / "store"
    groups, offsets = (root / "config" / n for n in ("subscriptionGroup.json", "delayOffset.json"))
    offsets.with_name("delayOffset.json.bak").unlink()
    for path in (groups, offsets):
        path.unlink()
        put(path)
    plan = plan_of(root)
    done = [(step.action, step.target) for step in plan.steps]
    assert done == [("leaveOut", str(offsets)), ("restoreConfig", str(groups))]
    result = repair(plan, tmp_path / "out")
    assert result.ok
    assert (tmp_path / "out" / "config" / groups.name).is_file()


def test_a_rebuilt_batch_queue_keeps_the_offsets_of_its_consumers(
    base_store, tmp_path: Path
) -> None:
    root = base_store("batch-cq-533")
    offsets = root / "config" / "consumerOffset.json"
    before = decode_consumer_offset(offsets.read_bytes()).offsets
    assert before["BulkA@CG_bulk"][0] == 5
    os.truncate(root / "batchconsumequeue" / "BulkA" / "0" / f"{0:020d}", 0)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    copy = tmp_path / "out" / "config" / "consumerOffset.json"
    assert decode_consumer_offset(copy.read_bytes()).offsets == before


def test_a_queue_file_that_is_a_byte_too_long_gets_its_length_again(
    base_store, tmp_path: Path
) -> None:
    root = base_store("batch-cq-533")
    name = f"batchconsumequeue/BulkA/0/{0:020d}"
    length = (root / name).stat().st_size
    os.truncate(root / name, length + 1)
    (found,) = verify(StoreDirectory(root), VerifyOptions()).findings
    assert (found.kind, found.path) == ("queueFiles", str(root / name))
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert (tmp_path / "out" / name).stat().st_size == length


@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)])
def test_a_manifest_that_is_not_a_file_is_a_finding_and_left_out(
    base_store, tmp_path: Path, put: Any
) -> None:
    root = base_store("normal-stop-533")
    put(root / "queueEnds.json")
    found = {row.kind for row in verify(StoreDirectory(root), VerifyOptions()).findings}
    assert "unreadable" in found
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert not os.path.lexists(tmp_path / "out" / "queueEnds.json")


def test_a_store_without_config_gets_topics_beside_its_timers(base_store, tmp_path: Path) -> None:
    root = base_store("delay-533")
    shutil.rmtree(root / "config")
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert (tmp_path / "out" / "config" / "topics.json").exists()


@pytest.mark.parametrize("backup", [True, False])
@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("topics.json", b"topicConfigTable"),
        ("subscriptionGroup.json", b"subscriptionGroupTable"),
        ("consumerOffset.json", b"offsetTable"),
        ("delayOffset.json", b"offsetTable"),
    ],
)
def test_a_configuration_file_without_its_table_is_restored_or_made(
    base_store, tmp_path: Path, name: str, table: bytes, backup: bool
) -> None:
    """Brokers read it as empty: a flipped bit in the name of the table loses all entries."""
    root = base_store("delay-533")
    path = root / "config" / name
    text = path.read_bytes()
    path.write_bytes(text.replace(table, table[:-1] + b"d"))
    spare = path.with_name(name + ".bak")
    spare.write_bytes(text)
    if not backup:
        spare.unlink()
    found = [row for row in verify(StoreDirectory(root), VerifyOptions()).findings if row.path]
    assert any(row.path == str(path) and "has no " + table.decode() in row.detail for row in found)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    if backup:
        assert (tmp_path / "out" / "config" / name).read_bytes() == text


@pytest.mark.parametrize("name", ["consumerOffset.json", "topics.json"])
def test_nul_bytes_after_the_text_cost_no_entry(base_store, tmp_path: Path, name: str) -> None:
    """A power cut leaves them; our broker reads the text, Java's the backup."""
    root = base_store("normal-stop-533")
    path = root / "config" / name
    text = path.read_bytes()
    path.write_bytes(text + bytes(100))
    path.with_name(name + ".bak").write_bytes(b'{"offsetTable":{},"topicConfigTable":{}}')
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert (tmp_path / "out" / "config" / name).read_bytes() == text


@pytest.mark.parametrize("added", [20, 3200])
def test_an_index_file_that_is_too_long_is_rebuilt(base_store, tmp_path: Path, added: int) -> None:
    root = base_store("normal-stop-533")
    path = StoreDirectory(root).index_files()[-1]
    length = path.stat().st_size
    os.truncate(path, length + added)
    (found,) = verify(StoreDirectory(root), VerifyOptions()).findings
    assert (found.kind, found.severity, found.path) == ("index", "error", str(path))
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    files = StoreDirectory(tmp_path / "out").index_files()
    assert {file.stat().st_size for file in files} == {length}


def test_a_clean_store_has_nothing_to_repair(base_store) -> None:
    for name in ("normal-stop-498", "pop-533", "batch-cq-533", "lmq-533", "transaction-533"):
        assert plan_of(base_store(name)).steps == []


def test_a_crashed_store_only_loses_its_abort_file(base_store, tmp_path: Path) -> None:
    root = base_store("kill9-async-533")
    plan = plan_of(root)
    assert actions(plan) == ["leaveOut"]
    assert repair(plan, tmp_path / "out").summary.state == "clean"


@pytest.mark.parametrize("name", ["kill9-sync-498", "kill9-sync-533"])
def test_records_left_undispatched_by_a_crash_are_dispatched(
    base_store, kept, tmp_path: Path, name: str
) -> None:
    """No start of a broker does it on a copy that is as after a clean stop."""
    root = base_store(name)
    before = verify(StoreDirectory(root), VerifyOptions()).summary
    assert before.not_yet_dispatched
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    after = result.summary
    assert (after.state, after.not_yet_dispatched) == ("clean", 0)
    assert after.units == before.units + before.not_yet_dispatched
    assert after.keys_indexed == after.keys
    assert [one.data for one in kept(tmp_path / "out")] == [one.data for one in kept(root)]


@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize("byte", [0xBD, 0x7F])
def test_a_time_that_is_none_becomes_that_of_the_neighbour(
    base_store, kept, tmp_path: Path, where: str, byte: int
) -> None:
    root = base_store("normal-stop-533")
    good = kept(root)
    item = good[{"first": 0, "middle": len(good) // 2, "last": -1}[where]]
    start = item.start // LOG_FILE * LOG_FILE
    poke(log_file(root, start), item.start - start + 56, bytes([byte]))
    result = repair(plan_of(root), tmp_path / "out")
    assert (result.ok, result.findings) == (True, [])
    out = kept(tmp_path / "out")
    assert [one.start for one in out] == [one.start for one in good]
    times = [one.record.store_timestamp for one in out]
    assert times == sorted(times)
    new = recover_store([root], tmp_path / "new", file_size=LOG_FILE)
    assert new.ok, new.findings


def test_a_last_message_that_is_cut_off_takes_its_unit_along(
    base_store, kept, tmp_path: Path
) -> None:
    root = base_store("batch-cq-533")
    *rest, item = kept(root)
    assert item.record.body_length
    poke(log_file(root), item.start + 8, bytes([item.data[8] ^ 1]))
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert result.summary.kinds == {}
    assert [one.data for one in kept(tmp_path / "out")] == [one.data for one in rest]


def test_a_lost_message_leaves_a_bridge_and_its_bytes(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    before = kept(root)
    lost = damage_one(root, kept)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok
    assert result.bridged == 1
    assert result.summary.kinds == {"bridge": 1}
    after = {item.start: item.data for item in kept(tmp_path / "out")}
    assert after == {item.start: item.data for item in before if item.start != lost.start}
    # The covered bytes are kept, and the filler is a record that every scanner skips.
    (saved,) = (tmp_path / "out" / "damaged").iterdir()
    assert saved.name == f"{lost.start}-{lost.end - lost.start}.bin"
    assert saved.read_bytes()[8:] == lost.data[8:]
    data = log_file(tmp_path / "out").read_bytes()
    fillers = [
        item for item in scan_commitlog(data, 0, decode=False) if item.physical_offset == lost.start
    ]
    assert fillers[0].sys_flag & 0xC == 0xC
    assert fillers[0].topic == b"SELF_TEST_TOPIC"
    # The lost message's unit repeats the next one.
    queue = tmp_path / "out" / "consumequeue" / "OrdersA" / str(lost.queue_id) / f"{0:020d}"
    at = lost.queue_offset * 20
    units = queue.read_bytes()
    assert units[at : at + 20] == units[at + 20 : at + 40]


def test_sealed_files_are_linked_and_the_others_copied(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    result = repair(plan_of(root), tmp_path / "out")
    assert result.queues_rebuilt == 1
    assert result.files_linked > 0
    assert os.path.samefile(log_file(root), log_file(tmp_path / "out"))
    last = log_file(root, 3 * LOG_FILE)
    assert not os.path.samefile(last, log_file(tmp_path / "out", 3 * LOG_FILE))
    assert log_file(tmp_path / "out").stat().st_mtime_ns == log_file(root).stat().st_mtime_ns
    copied = repair(plan_of(root), tmp_path / "copies", links=False)
    assert copied.files_linked == 0
    assert not os.path.samefile(log_file(root), log_file(tmp_path / "copies"))


@pytest.mark.parametrize("case", ["lost", "zeros"])
def test_the_file_that_a_broker_appends_to_is_never_linked(
    base_store, fingerprint, tmp_path: Path, case: str
) -> None:
    """The log ends with a blank record: recovery drops it and appends in its place."""
    root = base_store("normal-stop-533")
    poke(log_file(root, 3 * LOG_FILE), 0, bytes(LOG_FILE))
    if case == "lost":
        log_file(root, 3 * LOG_FILE).unlink()
    out = tmp_path / "out"
    assert repair(plan_of(root), out).ok
    assert os.path.samefile(log_file(root, LOG_FILE), log_file(out, LOG_FILE))
    before = fingerprint(root)
    append_one(out)
    assert fingerprint(root) == before


def test_a_missing_file_is_closed_up(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    before = kept(root)
    log_file(root, LOG_FILE).unlink()
    plan = plan_of(root)
    assert "insertFile" in actions(plan)
    result = repair(plan, tmp_path / "out")
    assert result.ok
    after = {item.start for item in kept(tmp_path / "out")}
    assert after == {k.start for k in before if not LOG_FILE <= k.start < 2 * LOG_FILE}


def test_a_short_file_gets_its_length_back(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    with log_file(root, 3 * LOG_FILE).open("r+b") as file:
        file.truncate(LOG_FILE - 9000)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok
    assert log_file(tmp_path / "out", 3 * LOG_FILE).stat().st_size == LOG_FILE


def test_the_file_length_follows_from_the_names_if_every_file_is_short(
    base_store, kept, tmp_path: Path
) -> None:
    root = base_store("pair-533", "slave")
    (root.parent / "broker-2.conf").unlink(missing_ok=True)
    (root.parent / "broker.conf").unlink(missing_ok=True)
    names = sorted((root / "commitlog").iterdir())
    for number, path in enumerate(names):
        os.truncate(path, 14_916 if number == 0 else 3_000)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    made = sorted((tmp_path / "out" / "commitlog").iterdir())
    assert {path.stat().st_size for path in made} == {LOG_FILE}


def test_a_log_that_keeps_no_plain_record_is_repaired(base_store, kept, tmp_path: Path) -> None:
    root = base_store("batch-cq-533")
    for item in kept(root):
        if item.topic == b"BulkPlainA":
            poke(log_file(root), item.start + 8, bytes([item.data[8] ^ 1]))
    good = kept(root)
    assert good
    shutil.rmtree(root / "batchconsumequeue")
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert {item.data for item in kept(tmp_path / "out")} >= {item.data for item in good}


def test_a_log_cut_after_its_first_record_is_repaired(golden_store, tmp_path: Path) -> None:
    """The index of the copy has entries for physical offset 0 only."""
    root = golden_store("retry-dlq-533", copy=True) / "store"
    path = root / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    first = next(iter(scan_commitlog(data, 0)))
    assert isinstance(first, LogRecord)
    path.write_bytes(data[: first.total_size])
    result = repair(make_plan(StoreDirectory(root)), tmp_path / "repaired")
    assert result.findings == []
    assert result.ok


def test_a_file_swapped_with_an_unused_one_goes_back(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    before = [item.data for item in kept(root)]
    first, unused = log_file(root), log_file(root, 9 * LOG_FILE)
    first.rename(unused)
    first.write_bytes(bytes(LOG_FILE))
    assert repair(plan_of(root), tmp_path / "out").ok
    assert [item.data for item in kept(tmp_path / "out")] == before


def test_swapped_files_go_back_and_a_double_is_left_out(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    before = [item.data for item in kept(root)]
    one, two = log_file(root), log_file(root, LOG_FILE)
    spare = one.with_name("spare")
    one.rename(spare)
    two.rename(one)
    spare.rename(two)
    shutil.copy(one, log_file(root, 9 * LOG_FILE))
    plan = plan_of(root)
    assert actions(plan).count("rename") == 2
    assert "leaveOut" in actions(plan)
    assert repair(plan, tmp_path / "out").ok
    assert [item.data for item in kept(tmp_path / "out")] == before


def test_configuration_comes_from_its_backup_and_topics_from_the_log(
    base_store, tmp_path: Path
) -> None:
    root = base_store("normal-stop-533")
    (root / "config" / "consumerOffset.json").write_bytes(b'{"offsetTable":{"Ord')
    (root / "config" / "topics.json").write_bytes(b"")
    (root / "config" / "topics.json.bak").unlink()
    plan = plan_of(root)
    assert {"restoreConfig", "makeTopics"} <= set(actions(plan))
    result = repair(plan, tmp_path / "out")
    assert result.ok, result.findings
    config = tmp_path / "out" / "config"
    assert (config / "consumerOffset.json").read_bytes() == (
        root / "config" / "consumerOffset.json.bak"
    ).read_bytes()
    topics = loads((config / "topics.json").read_bytes())["topicConfigTable"]
    assert topics["OrdersA"]["writeQueueNums"] == 4
    assert topics["PaymentsA"]["perm"] == 6


@pytest.mark.parametrize("backup", [True, False])
def test_topics_without_a_table_are_restored(base_store, tmp_path: Path, backup: bool) -> None:
    root = base_store("normal-stop-533")
    (root / "config" / "topics.json").write_bytes(b"{}")
    if not backup:
        (root / "config" / "topics.json.bak").unlink()
    plan = plan_of(root)
    assert ("restoreConfig" if backup else "makeTopics") in actions(plan)
    result = repair(plan, tmp_path / "out")
    assert result.ok, result.findings


def check_payments_from_log(out: Path, table: dict[str, Any], plan: RepairPlan) -> None:
    """The copy has the topics of ``table``, PaymentsA with the queues that the log shows."""
    made = loads((out / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert set(made) == set(table)
    assert made["OrdersA"] == table["OrdersA"]
    queues = [row.queue_id for row in plan.before.queues if row.topic == "PaymentsA"]
    for field in ("readQueueNums", "writeQueueNums"):
        assert made["PaymentsA"][field] == max(queues) + 1


def test_topics_that_the_backup_lacks_come_from_the_log(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    path = root / "config" / "topics.json"
    whole = loads(path.read_bytes())
    table = whole["topicConfigTable"]
    older = {name: topic for name, topic in table.items() if name != "PaymentsA"}
    path.with_name(path.name + ".bak").write_bytes(dump_bytes({**whole, "topicConfigTable": older}))
    path.write_bytes(path.read_bytes()[:2000])
    plan = plan_of(root)
    assert {"restoreConfig", "makeTopics"} <= set(actions(plan))
    result = repair(plan, tmp_path / "out")
    assert result.findings == []
    check_payments_from_log(tmp_path / "out", table, plan)


def test_valid_topics_are_kept_and_invalid_ones_come_from_the_log(
    base_store, tmp_path: Path
) -> None:
    root = base_store("normal-stop-533")
    path = root / "config" / "topics.json"
    whole = loads(path.read_bytes())
    table = whole["topicConfigTable"]
    table["OrdersA"]["perm"] = 4
    table["PaymentsA"]["writeQueueNums"] = "many"
    path.write_bytes(dump_bytes(whole))
    path.with_name(path.name + ".bak").unlink()
    (row,) = verify(StoreDirectory(root), VerifyOptions()).findings
    assert "PaymentsA" in row.detail
    assert "$.writeQueueNums" in row.detail
    plan = plan_of(root)
    steps = {step.action: step.detail for step in plan.steps}
    assert "PaymentsA" in steps["repairConfig"]
    assert steps["makeTopics"].startswith("1 topics")
    result = repair(plan, tmp_path / "out")
    assert result.findings == []
    check_payments_from_log(tmp_path / "out", table, plan)


def test_valid_groups_are_kept(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    path = root / "config" / "subscriptionGroup.json"
    whole = loads(path.read_bytes())
    table = whole["subscriptionGroupTable"]
    damaged = next(iter(table))
    table[damaged]["retryMaxTimes"] = "many"
    path.write_bytes(dump_bytes(whole))
    path.with_name(path.name + ".bak").unlink()
    plan = plan_of(root)
    assert [step.action for step in plan.steps] == ["repairConfig"]
    assert damaged in plan.steps[0].detail
    assert repair(plan, tmp_path / "out").ok
    made = loads((tmp_path / "out" / "config" / path.name).read_bytes())["subscriptionGroupTable"]
    assert set(made) == set(table) - {damaged}


@pytest.mark.parametrize(
    ("text", "kept_offsets"),
    [
        ('{"offsetTable":{"TP@G":{"a":"b"}}}', {"TP@G": {}}),
        ('{"offsetTable":{"OrdersA@G":{0:1,"1":"x","2":null},"B@G":[]}}', {"OrdersA@G": {0: 1}}),
        ('{"offsetTable":7}', None),
        ('{"groupTopicMap":7}', None),
    ],
)
def test_offsets_that_brokers_refuse_are_left_out(
    base_store, tmp_path: Path, text: str, kept_offsets: dict[str, dict[int, int]] | None
) -> None:
    root = base_store("normal-stop-533")
    path = root / "config" / "consumerOffset.json"
    path.write_text(text)
    path.with_name(path.name + ".bak").unlink()
    (row,) = verify(StoreDirectory(root), VerifyOptions()).findings
    assert (row.kind, row.severity, row.path) == ("config", "error", str(path))
    plan = plan_of(root)
    assert actions(plan)[-1] == ("leaveOut" if kept_offsets is None else "repairConfig")
    assert repair(plan, tmp_path / "out").ok
    assert (tmp_path / "out" / "damaged" / path.name).read_text() == text
    made = tmp_path / "out" / "config" / path.name
    assert made.exists() == (kept_offsets is not None)
    if kept_offsets is not None:
        assert decode_consumer_offset(made.read_bytes()).offsets == kept_offsets


def test_offsets_past_the_end_are_clamped(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    path = root / "config" / "consumerOffset.json"
    text = path.read_text()
    (tmp_path / "keep").write_text(text)
    path.write_text(text.replace("{0:41", "{0:941").replace("{0:10", "{0:910"))
    assert path.read_text() != text
    result = repair(plan_of(root), tmp_path / "out")
    assert "clampOffsets" in [step.action for step in result.steps]
    assert result.ok


def test_offsets_of_lmqs_past_the_end_are_clamped(base_store, tmp_path: Path) -> None:
    root = base_store("lmq-533")
    path = root / "config" / "lmqConsumerOffset.json"
    name = next(q.topic for q in StoreDirectory(root).queue_files() if q.topic.startswith("%LMQ%"))
    light = {f"{name}@g": 900}
    path.write_text(json.dumps({"lmqOffsetTable": light, "offsetTable": {f"{name}@h": {"0": 901}}}))
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    made = decode_consumer_offset((tmp_path / "out" / "config" / path.name).read_bytes())
    end = made.offsets[f"{name}@h"][0]
    assert 0 < end < 900
    assert made.lmq_offsets == {f"{name}@g": end}


def test_offsets_follow_a_queue_whose_last_message_is_lost(
    base_store, kept, tmp_path: Path
) -> None:
    root = base_store("normal-stop-533")
    queue = [k for k in kept(root) if k.topic == b"OrdersA" and k.queue_id == 0]
    item = queue[-1]
    start = item.start // LOG_FILE * LOG_FILE
    poke(log_file(root, start), item.start - start + 8, bytes([item.data[8] ^ 0x40]))
    path = root / "config" / "consumerOffset.json"
    gone = '"offsetTable":{"GoneA@CG_gone":{0:7},'
    path.write_text(path.read_text().replace('"offsetTable":{', gone))
    before = loads(path.read_bytes())["offsetTable"]
    assert before["OrdersA@CG_tagB"][0] == len(queue)
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    after = loads((tmp_path / "out" / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    assert after["OrdersA@CG_tagB"][0] == len(queue) - 1
    assert after["OrdersA@CG_tagB"][1] == before["OrdersA@CG_tagB"][1]
    # A topic that was deleted has no queue that could have an end.
    assert after["GoneA@CG_gone"] == before["GoneA@CG_gone"] == {0: 7}


def test_a_corrupt_field_is_restored_from_another_file(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    before = kept(root)
    some = [item for item in before if item.topic == b"OrdersA" and item.start < LOG_FILE]
    poke(log_file(root), some[10].start + 28, struct.pack(">q", 5))  # physicalOffset
    poke(log_file(root), some[20].start + 12, struct.pack(">i", 77))  # queueId
    poke(log_file(root), some[30].start + 20, struct.pack(">q", 9999))  # queueOffset
    poke(log_file(root), some[40].start + 39, b"\x04")  # sysFlag: prepared
    plan = plan_of(root)
    assert actions(plan).count("setField") == 4
    result = repair(plan, tmp_path / "out")
    assert result.ok
    assert result.bridged == 0
    assert [item.data for item in kept(tmp_path / "out")] == [item.data for item in before]


def test_a_time_that_is_damaged_for_good_leaves_a_sound_index(
    base_store, kept, tmp_path: Path
) -> None:
    """As after a clock that was set back: an IndexFile may begin behind its end."""
    root = base_store("normal-stop-498")
    heads = [INDEX_HEAD.unpack_from(path.read_bytes()) for path in (root / "index").iterdir()]
    last = min(head[3] for head in heads)  # the last record of the first index file
    item = next(item for item in kept(root) if item.start == last)
    poke(log_file(root), item.start + 60, bytes([item.data[60] ^ 0x80]))
    assert not verify(StoreDirectory(root), VerifyOptions()).summary.ok
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert {row.kind for row in result.findings} == {"timestamp"}
    heads = [
        INDEX_HEAD.unpack_from(path.read_bytes()) for path in (tmp_path / "out" / "index").iterdir()
    ]
    assert any(begin > end for begin, end, *_ in heads)
    # Without the record that proves it the same header is no longer trusted.
    first = min((tmp_path / "out" / "index").iterdir())
    data = first.read_bytes()
    poke(first, 8, (struct.unpack_from(">q", data, 0)[0] - 5).to_bytes(8, "big"))
    after = verify(StoreDirectory(tmp_path / "out"), VerifyOptions())
    assert "index" in {row.kind for row in after.findings}


@pytest.mark.parametrize("where", ["end", "middle"])
def test_a_record_without_the_end_of_its_properties_is_not_whole(
    base_store, kept, tmp_path: Path, where: str
) -> None:
    """Without a checksum the body counts as stored."""
    root = base_store("normal-stop-533")
    good = kept(root)
    at = len(good) - 1 if where == "end" else len(good) // 2
    item = good[at]
    start = item.start // LOG_FILE * LOG_FILE
    gone = [item]
    poke(log_file(root, start), item.end - start - 20, bytes(20))
    if where == "middle":  # with a lost page after it
        following = good[at + 1 : at + 4]
        assert following[-1].end < start + LOG_FILE
        poke(log_file(root, start), item.end - start, bytes(following[-1].end - item.end))
        gone += following
    for way in [False, True] if has_columns() else [False]:
        found = verify(StoreDirectory(root), VerifyOptions(columns=way))
        (row,) = (row for row in found.findings if row.kind == "content")
        assert (row.physical_offset, row.length) == (item.start, item.end - item.start)
        assert row.severity == ("warning" if where == "end" else "error")
    rescued = recover([root])
    assert item.start in [row.physical_offset for row in rescued.losses]
    assert {r.data for r in rescued.records} >= {k.data for k in good if k not in gone}
    assert item.data[:-20] + bytes(20) not in {r.data for r in rescued.records}
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert [k.data for k in kept(tmp_path / "out") if b"mqadmin store" not in k.data] == [
        k.data for k in good if k not in gone
    ]


def test_a_corrupt_queue_offset_is_detected_by_its_neighbours_without_a_queue(
    base_store, kept, tmp_path: Path
) -> None:
    root = base_store("normal-stop-533")
    before = kept(root)
    some = [k for k in before if k.topic == b"OrdersA" and k.queue_id == 0]
    item = some[len(some) // 2]
    path = log_file(root, item.start // LOG_FILE * LOG_FILE)
    poke(path, item.start % LOG_FILE + 20, struct.pack(">q", 1))
    shutil.rmtree(root / "consumequeue")
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert [k.data for k in kept(tmp_path / "out")] == [k.data for k in before]


def test_a_directory_in_place_of_the_checkpoint_becomes_a_file(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    (root / "checkpoint").unlink()
    (root / "checkpoint").mkdir()
    result = repair(plan_of(root), tmp_path / "out")
    assert result.ok, result.findings
    assert (tmp_path / "out" / "checkpoint").stat().st_size == 4096


def test_in_place_keeps_the_old_directory(base_store, fingerprint, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    before = fingerprint(root)
    backup = root.with_name("before")
    result = repair_in_place(plan_of(root), backup)
    assert result.backup == str(backup)
    assert result.summary.checkpoint.path == str(root / "checkpoint")
    assert fingerprint(backup) == before
    assert verify(StoreDirectory(root), VerifyOptions()).summary.ok
    with pytest.raises(ConfigError, match="exists"):
        repair_in_place(plan_of(root), backup)


def test_a_store_whose_broker_was_started_meanwhile_is_not_exchanged(
    base_store, fingerprint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy would lack the messages that the broker has stored since."""
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    (root / "lock").write_bytes(b"lock")
    before = fingerprint(root.parent)
    holders = iter((0,))
    plan = plan_of(root)
    monkeypatch.setattr(
        "mqadmin.inspector.directory.lock_holder",
        lambda path: next(holders, 4242) if path.parent == root else 0,
    )
    with pytest.raises(StoreLockedError, match="process 4242 holds the lock"):
        repair_in_place(plan, root.with_name("before"))
    assert fingerprint(root.parent) == before


def test_a_backup_out_of_reach_is_refused_before_anything_is_done(
    base_store, fingerprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    before = fingerprint(root.parent)
    with pytest.raises(ConfigError, match=r"no backup can be made in .*/absent"):
        repair_in_place(plan_of(root), tmp_path / "absent" / "before")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stat = Path.stat

    def other_device(path: Path, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        if path != elsewhere:
            return found
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:10]))

    monkeypatch.setattr(Path, "stat", other_device)
    with pytest.raises(ConfigError, match="another file system"):
        repair_in_place(plan_of(root), elsewhere / "before")
    monkeypatch.undo()
    elsewhere.rmdir()
    assert fingerprint(root.parent) == before


def test_an_exchange_that_fails_half_way_is_taken_back(
    base_store, fingerprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    before = fingerprint(root)
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.name.endswith(".repairing"):
            raise PermissionError(13, "Permission denied", str(path))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(StoreError, match="cannot be exchanged: Permission denied"):
        repair_in_place(plan_of(root), root.with_name("before"))
    assert fingerprint(root) == before
    assert not root.with_name("before").exists()


@pytest.mark.parametrize("done", [False, True])
def test_an_exchange_that_is_interrupted_leaves_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """The interrupt comes before or after the second rename."""
    root, copy, backup = (tmp_path / name for name in ("store", "copy", "before"))
    root.mkdir()
    (root / "old").touch()
    copy.mkdir()
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path == copy:
            if done:
                rename(path, target)
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        exchange(root, copy, backup)
    assert (root / "old").exists() is not done
    assert (backup / "old").exists() is done


def test_a_running_broker_is_not_operated_on(base_store, tmp_path: Path) -> None:
    import subprocess
    import sys

    root = base_store("normal-stop-533")
    hold = (
        "import fcntl,os,sys;f=open(sys.argv[1],'r+');"
        "fcntl.lockf(f,fcntl.LOCK_EX,1);print('held',flush=True);sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", hold, str(root / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match=str(child.pid)):
            repair(plan_of(root), tmp_path / "out")
        assert not (tmp_path / "out").exists()
    finally:
        child.communicate(b"")


def test_an_output_that_is_there_or_inside_is_refused(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(ConfigError, match="not empty"):
        repair(plan_of(root), tmp_path / "full")
    with pytest.raises(ConfigError, match="inside the store"):
        repair(plan_of(root), root / "repaired")
    assert (tmp_path / "full" / "x").exists()


def test_of_two_repairs_at_once_one_gets_the_directory(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    plan = plan_of(root)
    first = Output(tmp_path / "out")
    with pytest.raises(ConfigError, match="not empty"):
        repair(plan, tmp_path / "out")
    assert (tmp_path / "out").is_dir()  # the other one's work is not thrown away
    first.discard()
    assert repair(plan, tmp_path / "out").ok
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_the_output_of_a_killed_repair_is_restarted(
    base_store, fingerprint, tmp_path: Path
) -> None:
    """The source is unchanged, and the claim on the output is released."""
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue")
    before = fingerprint(root)
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from mqadmin.inspector.directory import StoreDirectory\n"
        "from mqadmin.repair import store_repair as repair\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "repair.rebuild = die\n"
        "plan = repair.make_plan(StoreDirectory(sys.argv[1]))\n"
        "repair.repair(plan, Path(sys.argv[2]))\n"
    )
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", code, str(root), str(out)], check=False)
    assert done.returncode == -9
    assert any((out / "commitlog").iterdir())
    assert fingerprint(root) == before
    result = repair(plan_of(root), out)
    assert result.ok, result.findings
    assert not [path for path in out.iterdir() if path.name.startswith(".")]
    assert fingerprint(root) == before


def test_a_full_disk_leaves_no_output_and_an_unchanged_source(
    base_store, fingerprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = base_store("normal-stop-533")
    shutil.rmtree(root / "consumequeue")
    plan = plan_of(root)
    before = fingerprint(root)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("mqadmin.repair.files.os.pwrite", full)
        with pytest.raises(DiskFullError, match="No space left"):
            repair(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert fingerprint(root) == before
    assert repair(plan_of(root), tmp_path / "out").ok


def test_a_folder_without_a_store_cannot_be_planned(base_store, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    with pytest.raises(StoreError, match="not a store directory"):
        make_plan(StoreDirectory(log_file(root)))
    (tmp_path / "empty" / "commitlog").mkdir(parents=True)
    (tmp_path / "empty" / "commitlog" / f"{0:020d}").write_bytes(bytes(4096))
    with pytest.raises(StoreError, match="no whole record"):
        make_plan(StoreDirectory(tmp_path / "empty"))


def append_one(root: Path) -> None:
    """Open a store with our engine, append a message and close it."""
    store = MessageStore(
        MessageStoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=LOG_FILE,
            mapped_file_size_consume_queue=600,
            max_hash_slot_num=40,
            max_index_num=150,
        )
    )
    report = store.load()
    assert not report.damaged_regions
    store.start()
    host = b"\x7f\0\0\1\0\0\x2a\x9f"
    put = store.put_message(
        MessageExtBrokerInner(
            topic="OrdersA",
            queue_id=0,
            body=b"behind the repair",
            properties=b"KEYS\x01new\x02",
            flag=0,
            sys_flag=0,
            born_timestamp=1,
            born_host=host,
            store_host=host,
        )
    )
    assert put.status.name == "PUT_OK"
    store.shutdown()


def test_our_engine_opens_the_repaired_store(base_store, kept, tmp_path: Path) -> None:
    root = base_store("normal-stop-533")
    damage_one(root, kept)
    shutil.rmtree(root / "consumequeue" / "PaymentsA")
    assert repair(plan_of(root), tmp_path / "out").ok
    append_one(tmp_path / "out")
    assert verify(StoreDirectory(tmp_path / "out"), VerifyOptions()).summary.ok


def test_bytes_after_the_length_of_a_file_are_cut_and_kept(
    base_store: Any, kept: Any, tmp_path: Path
) -> None:
    root = base_store("normal-stop-533")
    before = kept(root)
    with log_file(root).open("ab") as file:
        file.write(b"\x55" * 777)
    result = repair(plan_of(root), tmp_path / "repaired")
    assert result.ok
    assert [item.data for item in kept(tmp_path / "repaired")] == [item.data for item in before]
    (saved,) = (tmp_path / "repaired" / "damaged").iterdir()
    assert saved.read_bytes() == b"\x55" * 777
