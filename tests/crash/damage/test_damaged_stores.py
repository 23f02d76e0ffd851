"""One random change to a file of a store: nothing intact is lost, nothing is served twice.

Each run changes one file of a store that a Java broker or ours wrote, verifies and repairs it, and
starts a broker on the repaired copy and on the damaged store. The long form is ``scripts/torture
damage``. Seed and name of a run repeat it: ``scripts/torture damage 300 --seed 42 -k run17]``.
"""

import asyncio
import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from broker.common.config.properties import parse_properties
from broker.errors import RocketMQError
from broker.message.record import decode_record
from broker.server.standalone import EmbeddedBroker
from broker.store.format.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE
from broker.store.message_store import MessageStore
from mqadmin.app import main
from mqadmin.inspector.damage import NOTICE
from mqadmin.repair.plan import index_shape
from tests.support.lossy_recovery import content
from tests.support.mixed_store import SETTINGS, write_mixed_store
from tests.support.store_damage import StoreDamage, commitlog_files, damage_store, stored_records

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]

RUNS = int(os.environ.get("TORTURE_RUNS", "24"))
STEP_LIMIT_S = 60.0  # the slowest takes 2 s on an idle machine
OWN = "own"
NAMES = (
    "batch-cq-533",
    "delay-498",
    "delay-533",
    "ipv6-533",
    "kill9-async-498",
    "kill9-sync-533",
    "lmq-533",
    "normal-stop-498",
    "normal-stop-533",
    "pair-533",
    "pop-533",
    "retry-dlq-498",
    "retry-dlq-533",
    "transaction-498",
    "transaction-533",
)
# The copy is served by a single broker, at any free port.
LEFT_OUT = {
    "listenPort",
    "haListenPort",
    "namesrvAddr",
    "brokerRole",
    "brokerId",
    "inSyncReplicas",
    "totalReplicas",
    "enableAutoInSyncReplicas",
}
DAMAGED = 7
REWRITTEN = ("index/", "checkpoint")
UNIT_SIZES = {"consumequeue": UNIT_SIZE, "batchconsumequeue": BATCH_UNIT_SIZE}

Served = dict[tuple[str, int], Counter[bytes]]


def served_records(store: MessageStore) -> Served:
    """The bytes of every record that each queue of an open store serves, and how often.

    An offset whose record is lost repeats the record after it (a filler unit, as Java has no unit
    for a loss): equal neighbours count once.
    """
    found: Served = {}
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            found[topic, queue_id] = Counter(
                record for record, _ in groupby(scan_queue(store, topic, queue_id))
            )
    return found


def scan_queue(store: MessageStore, topic: str, queue_id: int) -> Iterator[bytes]:
    """Pull one record after another from the minimum to the maximum offset of a queue."""
    offset = max(store.get_min_offset(topic, queue_id), 0)
    while offset < store.get_max_offset(topic, queue_id):
        result = store.get_message(topic, queue_id, offset, 1)
        if result.message_count:
            yield b"".join(result.buffers)
        offset = max(result.next_begin_offset, offset + 1)


@contextmanager
def step_limit() -> Iterator[None]:
    """Fail if the block takes longer than a step may."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < STEP_LIMIT_S


def serve(root: Path, properties: dict[str, str]) -> Served:
    """Start a broker on a store and read every queue; RocketMQError if it refuses."""

    async def read() -> Served:
        async with EmbeddedBroker(str(root), properties) as broker:
            return served_records(broker.controller.store)

    with step_limit():
        return asyncio.run(read())


class Origin:
    """An undamaged store, its settings, and the records that a broker serves from it."""

    def __init__(self, root: Path, properties: dict[str, str], scratch: Path) -> None:
        self.root = root
        self.properties = properties
        self.records = {
            path.read_bytes()[record.position : record.position + record.total_size]
            for path in commitlog_files(self.root)
            for record in stored_records(path)
        }
        shutil.copytree(self.root, scratch)
        self.served = serve(scratch, self.properties)
        shutil.rmtree(scratch)

    def settings_of(self, copy: Path) -> dict[str, str]:
        """The settings for a repaired copy.

        The only file of a kind may have lost its length, or one of two IndexFiles, and no other
        shows the right one: the setting is in broker.conf, not in the store. The copy is then
        served with the length that repair gave to the file.
        """
        settings = dict(self.properties)
        lengths = [path.stat().st_size for path in commitlog_files(copy)]
        if len(commitlog_files(self.root)) == 1:
            settings["mappedFileSizeCommitLog"] = str(lengths[0])
        index_files = sorted((copy / "index").glob("*"))
        if len(list((self.root / "index").glob("*"))) <= 2 and index_files:
            shape = index_shape(index_files[0])
            assert shape is not None
            settings["maxHashSlotNum"], settings["maxIndexNum"] = map(str, shape)
        return settings


@pytest.fixture(scope="module")
def origins(
    request: pytest.FixtureRequest,
    golden_store: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Origin]:
    """``origins("delay-533")``: a store of tests/golden; ``origins("own")``: one of our broker."""

    @cache
    def load(name: str) -> Origin:
        made = tmp_path_factory.mktemp(name)
        if name == OWN:
            rng = random.Random(request.config.getoption("--seed"))
            write_mixed_store(made / "store", rng)
            return Origin(made / "store", SETTINGS, made / "scratch")
        folder = golden_store(name)
        found = parse_properties((folder / "broker.conf").read_text())
        properties = {
            key: value
            for key, value in found.items()
            if key not in LEFT_OUT and not key.startswith("storePath")
        }
        root = folder / ("store" if (folder / "store").is_dir() else "master")
        return Origin(root, properties, made / "scratch")

    return load


def run_mqadmin(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Run a command: its exit status and both outputs."""
    capsys.readouterr()
    with step_limit():
        status = main([*words])
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "Traceback" not in text, text
    return status, text


def missing(expected: Served, found: Served, intact: set[bytes]) -> list[str]:
    """The intact records that a queue has served and no longer serves."""
    return [
        describe(*queue, record)
        for queue, records in expected.items()
        for record in records
        if record in intact and record not in found.get(queue, ())
    ]


def repeated(expected: Served, found: Served) -> list[str]:
    """The records that a queue serves more often than expected."""
    return [
        f"{describe(*queue, record)} x {count}"
        for queue, records in found.items()
        for record, count in records.items()
        if count > max(1, expected.get(queue, Counter())[record])
    ]


def describe(topic: str, queue_id: int, record: bytes) -> str:
    """Place of a record for the message of a failure."""
    message = decode_record(record)
    return (
        f"{topic} {queue_id}: queue offset {message.queue_offset}, "
        f"physical offset {message.physical_offset}"
    )


def check_repair(
    capsys: pytest.CaptureFixture[str], root: Path, origin: Origin, intact: set[bytes]
) -> None:
    """Verify, repair to a copy, verify the copy, and start a broker on it."""
    copy = root.with_name("copy")
    status, text = run_mqadmin(capsys, "store", "verify", str(root))
    assert status in (0, DAMAGED), text
    status, text = run_mqadmin(capsys, "store", "repair", str(root), "--out", str(copy))
    if not intact:
        assert status == DAMAGED, text
        assert "the log holds no whole record" in text
        return
    assert status == 0, text
    status, text = run_mqadmin(capsys, "store", "verify", str(copy), "-o", "ndjson")
    if status == DAMAGED:
        # A commit message whose half message is lost; a storeTimestamp that is possible, as after a
        # step of the clock.
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        kinds = {row["kind"] for row in rows if row["severity"] != NOTICE}
        if "topicUnknown" in kinds:  # a timer message delivered after the deletion of its topic
            _, before = run_mqadmin(capsys, "store", "verify", str(origin.root), "-o", "ndjson")
            assert '"kind":"topicUnknown"' in before, text
        assert kinds <= {"transaction", "timestamp", "topicUnknown"}, text
    else:
        assert status == 0, text
    found = serve(copy, origin.settings_of(copy))
    assert not missing(origin.served, found, intact)
    assert not repeated(origin.served, found)


def hidden_records(damage: StoreDamage, origin: Origin, killed: bool) -> set[bytes]:
    """The records that a start may hide until a repair: known limits.

    Wrong units of a ConsumeQueue hide their messages, as do those of a file under the name of
    another one. After a kill a record with queue offset 0, the last one of its queue, looks like
    the first one after its topic was recreated, and a record with another queue id is dispatched
    to that queue.
    """
    kind, *names = damage.path.split("/")
    if kind in UNIT_SIZES:
        size = UNIT_SIZES[kind]
        records = sorted(
            origin.served.get((names[0], int(names[1])), ()),
            key=lambda record: decode_record(record).queue_offset,
        )
        if damage.change.startswith(("swapped", "renamed")):
            return set(records)
        start = int(names[2]) + damage.start
        return set(records[start // size : (start + damage.length - 1) // size + 1])
    if damage.message is None or not killed:
        return set()
    topic, queue_id = damage.message.topic, damage.message.queue_id
    last = max(
        (decode_record(record).queue_offset for record in origin.served.get((topic, queue_id), ())),
        default=-1,
    )
    hides = damage.field == "queueId" or (
        damage.field == "queueOffset" and damage.value == 0 and damage.message.queue_offset == last
    )
    found = [records for queue, records in origin.served.items() if hides and queue[0] == topic]
    return set().union(*found)


def check_start(root: Path, origin: Origin, expected: set[bytes], *, recovers: bool) -> None:
    """Start a broker on the damaged store itself: it refuses without a change, or serves.

    ``recovers``: the files of timers are refused after recovery has changed derived files.
    """

    def kept_files() -> dict[str, bytes]:
        files = content(root)
        return {n: files[n] for n in files if not (recovers and n.startswith(REWRITTEN))}

    before = kept_files()
    refusal = ""
    try:
        found = serve(root, origin.properties)
    except RocketMQError as error:
        refusal = error.message
    if refusal:
        assert str(root) in refusal
        assert kept_files() == before
        return
    assert not missing(origin.served, found, expected)
    assert not repeated(origin.served, found)


@pytest.mark.parametrize("run", range(RUNS), ids=lambda run: f"run{run}")
def test_a_damaged_store_loses_and_repeats_no_intact_record(
    run: int,
    rng: random.Random,
    origins: Callable[[str], Origin],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = rng.choice((*NAMES, OWN, OWN, OWN, OWN, OWN))
    origin = origins(name)
    root = tmp_path / "store"
    shutil.copytree(origin.root, root)
    damage = damage_store(root, rng)
    if rng.random() < 0.4:
        (root / "abort").write_bytes(b"1")
    killed = (root / "abort").exists()
    left = b"".join(path.read_bytes() for path in (root / "commitlog").iterdir() if path.is_file())
    intact = {record for record in origin.records if record in left}
    try:
        check_repair(capsys, root, origin, intact)
        recovers = killed and damage.path.startswith("timer")
        expected = intact - hidden_records(damage, origin, killed)
        check_start(root, origin, expected, recovers=recovers)
    except BaseException as error:
        error.add_note(f"{name}, {'killed' if killed else 'stopped'}: {damage}")
        raise
