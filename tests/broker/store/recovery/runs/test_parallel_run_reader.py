"""Recovery with child processes leaves the same files as record by record, also if they fail."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFile
from broker.store.recovery import log_scan
from broker.store.recovery.log_scan import LogScan
from broker.store.recovery.runs import encoded_run, parallel_run_reader
from broker.store.recovery.runs.encoded_run import EncodedRun, ReadOptions
from broker.store.recovery.runs.parallel_run_reader import ParallelRunReader
from broker.store.recovery.runs.run_dispatcher import LocalRunReader, RunDispatcher, RunReader
from tests.support.lossy_recovery import LOSSES, assert_the_same, count_runs, fill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes need memfd")

OPTIONS = ReadOptions(check_crc=True, power_failed=True, indexed_to=-1)
FILE_BYTES = 16_384


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_run_reader, "SEGMENT_BYTES", 3_000)
    # So that the scan waits for the processes.
    monkeypatch.setattr(parallel_run_reader, "MAX_AHEAD", 5)


@pytest.mark.parametrize("rows", [3, 512])
@pytest.mark.parametrize("lose", LOSSES, ids=lambda f: f.__name__)
def test_processes_leave_the_same(
    stores, inner, tmp_path, rng: random.Random, monkeypatch, lose, rows: int
):
    def in_parallel(patch: pytest.MonkeyPatch) -> list[int]:
        patch.setattr(LogScan, "vectorized_from_bytes", 1 << 60)
        patch.setattr(LogScan, "parallel_from_bytes", 0)
        patch.setattr(log_scan, "process_count", lambda: 2)
        patch.setattr(encoded_run, "ROWS", rows)
        return count_runs(patch, RunDispatcher)

    assert_the_same(stores, inner, tmp_path, rng, monkeypatch, lose, in_parallel)


@pytest.fixture
def files(stores, inner, rng: random.Random) -> Iterator[list[MappedFile]]:
    """The files of a log with every kind of message."""
    store = stores.start(stores.config(mapped_file_size_commit_log=FILE_BYTES))
    fill(store, stores, rng, inner, 400)
    stores.kill(store)
    folder = Path(store.config.root, "commitlog")
    opened = [
        MappedFile(Disk(), str(folder), int(path.name), FILE_BYTES)
        for path in sorted(folder.iterdir())
    ]
    yield opened
    for file in opened:
        file.close()
    stores.close(stores.load(store.config))


def read_all(
    reader: RunReader, files: list[MappedFile], each: Callable[[int], None] = lambda number: None
) -> list[EncodedRun]:
    runs: list[EncodedRun] = []
    try:
        for file in files:
            position = 0
            while (run := reader.read(file, position)) is not None:
                runs.append(run)
                each(len(runs))
                position = run.end - file.start
    finally:
        reader.close()
    return runs


def summary(runs: list[EncodedRun]) -> list[object]:
    """Everything but the bounds of the runs."""
    queues: dict[object, bytes] = {}
    entries: list[object] = []
    for run in runs:
        for group in run.queues:
            key = group.topic, group.queue_id
            queues[key] = queues.get(key, b"") + group.units
        entries += zip(run.hashes, run.offsets, run.store_timestamps, strict=True)
    return [queues, entries, sum(run.records for run in runs), runs[-1].end]


def child_processes(parent: int) -> set[int]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.add(int(path.parent.name))
    return found


def test_runs_of_processes_are_those_of_the_scan(files, monkeypatch, caplog):
    expected = summary(read_all(LocalRunReader(OPTIONS), files))
    before = child_processes(os.getpid()), set(os.listdir("/proc/self/fd"))
    reader = ParallelRunReader(files, 0, OPTIONS, 2)
    assert len(child_processes(os.getpid()) - before[0]) == 2
    assert summary(read_all(reader, files)) == expected
    assert reader.segments_received > 0
    assert (child_processes(os.getpid()), set(os.listdir("/proc/self/fd"))) == before
    assert not caplog.records


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("after", [0, 3])
def test_a_process_that_fails_is_replaced_by_the_scan(
    files, monkeypatch, caplog, number: signal.Signals, after: int
):
    monkeypatch.setattr(parallel_run_reader, "ANSWER_LIMIT_S", 0.2)
    expected = summary(read_all(LocalRunReader(OPTIONS), files))
    before = child_processes(os.getpid())
    reader = ParallelRunReader(files, 0, OPTIONS, 2)
    started = child_processes(os.getpid()) - before

    def hit(runs: int) -> None:
        if runs == after + 1:
            for pid in started & child_processes(os.getpid()):  # a slow one was ended already
                os.kill(pid, number)

    assert summary(read_all(reader, files, hit)) == expected
    assert child_processes(os.getpid()) == before
    assert "a child process failed" in caplog.text


def test_without_processes_the_scan_reads_everything(files, monkeypatch, caplog):
    expected = summary(read_all(LocalRunReader(OPTIONS), files))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    reader = ParallelRunReader(files, 0, OPTIONS, 2)
    assert summary(read_all(reader, files)) == expected
    assert reader.segments_received == 0
    assert "/nowhere/python" in caplog.text


def test_segments_without_runs_are_read_by_the_scan(files, monkeypatch):
    expected = summary(read_all(LocalRunReader(OPTIONS), files))
    # The processes see the log files of another folder, without a record.
    folder = Path(files[0].path).parent
    moved = folder.with_name("moved")
    shutil.copytree(folder, moved)
    for path in folder.iterdir():
        path.unlink()
        path.write_bytes(bytes(FILE_BYTES))
    reader = ParallelRunReader(files, 0, OPTIONS, 2)
    assert summary(read_all(reader, files)) == expected
    assert reader.segments_received > 0
    shutil.rmtree(folder)
    moved.rename(folder)


def test_processes_run_no_code_of_the_current_folder(files, monkeypatch, tmp_path: Path):
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("open('run', 'x')")
    monkeypatch.chdir(tmp_path)
    reader = ParallelRunReader(files, 0, OPTIONS, 2)
    read_all(reader, files)
    assert reader.segments_received > 0
    assert not (tmp_path / "run").exists()


CHILD = """
import sys, time
from pathlib import Path
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFile
from broker.store.recovery.runs.encoded_run import ReadOptions
from broker.store.recovery.runs.parallel_run_reader import ParallelRunReader
path = Path(sys.argv[1])
file = MappedFile(Disk(), str(path.parent), int(path.name), path.stat().st_size)
reader = ParallelRunReader([file], 0, ReadOptions(True, True, -1), 2)
print("ready", flush=True)
time.sleep(60)
"""


def test_processes_end_with_their_parent(files):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, files[0].path], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        pids = child_processes(parent.pid)
        parent.kill()
    assert len(pids) == 2
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
