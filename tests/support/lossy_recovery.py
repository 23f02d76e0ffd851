"""Stores that lost files, and recoveries of them that dispatch runs or single records."""

import random
import re
import shutil
from pathlib import Path

import pytest

from broker.common.topic import SCHEDULE_TOPIC
from broker.store.recovery.log_scan import LogScan
from broker.store.recovery.runs.run_dispatcher import DispatchedRun, RunDispatcher

PREPARED, COMMIT, ROLLBACK = 4, 8, 12
TOPICS = ["TopicA", "TopicB", "%RETRY%group", SCHEDULE_TOPIC, "Größe"]


def random_message(rng: random.Random, inner, number: int):
    topic = rng.choice([*TOPICS, "TopicA", "TopicA", "TopicB"])
    properties = {}
    if rng.random() < 0.8:
        properties["UNIQ_KEY"] = f"U{number:08d}"
    if rng.random() < 0.6:
        words = [f"k{rng.randrange(30)}" for _ in range(rng.choice([1, 1, 2, 5]))]
        properties["KEYS"] = rng.choice([" ", "  "]).join(words) + rng.choice(["", "", " "])
    if rng.random() < 0.6:
        properties["TAGS"] = rng.choice(["TagA", "TagB", "Größe", "x" * 60])
    if rng.random() < 0.1:
        properties["long"] = "x" * rng.choice([500, 1000, 1500])
    if topic == SCHEDULE_TOPIC:
        properties["DELAY"] = str(rng.randrange(1, 19))
    sys_flag = rng.choice([0] * 30 + [PREPARED, COMMIT, ROLLBACK])
    body = rng.randbytes(rng.choice([0, 1, 20, 200]))
    return inner(topic, rng.randrange(3), body=body, properties=properties, sys_flag=sys_flag)


def fill(store, stores, rng: random.Random, inner, count: int) -> None:
    for number in range(count):
        store.put_message(random_message(rng, inner, number))
        stores.clock.advance(rng.choice([0, 0, 1, 700]))
        if rng.random() < 0.01:
            store.delete_topics(["TopicB"])


def content(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def lose_everything(root: Path, rng: random.Random) -> None:
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "index")


def lose_everything_and_a_record(root: Path, rng: random.Random) -> None:
    """The queue offsets of the records then have gaps: such a queue takes the slow path."""
    lose_everything(root, rng)
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        found = [match.start() for match in re.finditer(rb"\xda\xa3\x20\xa7", data)]
        for at in rng.sample(found, min(3, len(found))):
            data[at] ^= 0xFF
        path.write_bytes(data)


def lose_a_queue(root: Path, rng: random.Random) -> None:
    shutil.rmtree(rng.choice(sorted((root / "consumequeue" / "TopicA").iterdir())))


def lose_ends_of_files(root: Path, rng: random.Random) -> None:
    for path in sorted([*(root / "consumequeue").rglob("0*"), *(root / "index").iterdir()]):
        if path.is_file() and rng.random() < 0.5:
            data = bytearray(path.read_bytes())
            start = rng.randrange(len(data))
            data[start:] = bytes(len(data) - start)
            path.write_bytes(data)


def flip_bits(root: Path, rng: random.Random) -> None:
    files = sorted(path for path in root.rglob("[0-9]*") if path.is_file())
    for _ in range(rng.randrange(1, 6)):
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def lose_sectors(root: Path, rng: random.Random) -> None:
    """A power failure: some sectors of the log were never written."""
    lose_everything(root, rng)
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(8):
            start = 512 * rng.randrange(len(data) // 512)
            data[start : start + 512] = bytes(512)
        path.write_bytes(data)


def recover(stores, root: Path):
    stores.root = root
    store = stores.load(stores.config(mapped_file_size_commit_log=16_384))
    report = store.report
    assert (store.reput.dispatched > 0) == (report.dispatched > 0)
    stores.kill(store)
    return (
        report.log_end,
        report.dispatched,
        [
            (Path(d.path).name, d.physical_offset, d.length, d.reason)
            for d in report.damaged_regions
        ],
        [note.replace(str(root), "") for note in report.notes],
    )


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Dispatch no runs."""
    monkeypatch.setattr(LogScan, "vectorized_from_bytes", 1 << 60)
    monkeypatch.setattr(
        RunDispatcher, "dispatch_run", lambda *args, **options: DispatchedRun(0, args[2])
    )
    return []


def count_runs(monkeypatch: pytest.MonkeyPatch, dispatcher: type) -> list[int]:
    used: list[int] = []
    dispatch_run = dispatcher.dispatch_run

    def counted(self, *args, **options):
        found = dispatch_run(self, *args, **options)
        used.append(found.records)
        return found

    monkeypatch.setattr(dispatcher, "dispatch_run", counted)
    return used


LOSSES = [
    lose_everything,
    lose_everything_and_a_record,
    lose_a_queue,
    lose_ends_of_files,
    flip_bits,
    lose_sectors,
]


def assert_the_same(stores, inner, tmp_path, rng, monkeypatch, lose, way) -> None:
    """Recovery with the runs of ``way(patch)`` leaves the files of recovery record by record."""
    config = stores.config(mapped_file_size_commit_log=16_384)
    store = stores.start(config)
    fill(store, stores, rng, inner, 400)
    stores.kill(store)
    root = Path(config.root)
    lose(root, rng)
    (root / "abort").write_text("1\n")
    found = []
    for dispatch in (one_by_one, way):
        other = tmp_path / dispatch.__name__
        shutil.copytree(root, other)
        with monkeypatch.context() as patch:
            used = dispatch(patch)
            found.append((recover(stores, other), content(other)))
    # Runs leave queues that lack records: after many losses, or in a short log, possibly all.
    assert used
    assert sum(used) > 0 or lose is lose_sectors or found[-1][0][1] < 100
    (slow_report, slow), (quick_report, quick) = found
    assert quick_report == slow_report
    assert [name for name in {*slow, *quick} if slow.get(name) != quick.get(name)] == []
    shutil.rmtree(root)
    stores.root = root
