"""The Parquet export contains every message once, also after interruptions and kills."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline.export import PARAMETERS, ExportReader, by_partition
from mqadmin.pipeline.sinks import parquet
from mqadmin.pipeline.sinks.parquet import SPLITS, read_record
from tests.support.pipeline_store import (
    MakeLiveStore,
    MakeLog,
    decode_store,
    normalize,
    read_export,
)

FILES = "dt=*/topic=*/*.parquet"


def test_an_export_contains_the_rows_of_the_source(
    run_job: Any,
    spark: Any,
    store_roots: dict[str, Path],
    tmp_path: Path,
) -> None:
    roots = [store_roots[name] for name in ("retry-dlq-533", "ipv6-498", "batch-cq-533")]
    out = tmp_path / "out"
    result = run_job("export", *roots, out=str(out), splitBytes=9000)
    expected = normalize(row for root in roots for row in decode_store(root))
    assert normalize(read_export(out)) == expected
    frame = spark.read.parquet(str(out))
    assert normalize(row.asDict() | {"dt": None} for row in frame.collect()) == normalize(
        {**dict(row), "dt": None} for row in expected
    )
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["messages"] == len(expected) == sum(row["messages"] for row in result.rows)
    assert {store["path"] for store in manifest["stores"]} == {str(root) for root in roots}
    assert sorted(file["path"] for file in manifest["files"]) == sorted(
        str(path.relative_to(out)) for path in out.glob(FILES)
    )
    assert [(row["dt"], row["topic"]) for row in result.rows] == sorted(
        (row["dt"], row["topic"]) for row in result.rows
    )


def test_a_later_run_adds_new_messages_and_rewrites_no_complete_split(
    run_job: Any, live_store: MakeLiveStore, tmp_path: Path
) -> None:
    live = live_store(tmp_path / "live", file_size=16_384)
    live.put(80, size=300)
    out = tmp_path / "out"
    run_job("export", live.root, out=str(out), splitBytes=4096)
    assert normalize(read_export(out)) == normalize(decode_store(live.root))
    times = {path: path.stat().st_mtime_ns for path in out.glob(FILES)}
    live.put(80, size=300)
    stray = next(iter(times)).with_name(".left-behind.tmp")
    stray.touch()
    result = run_job("export", live.root, out=str(out), splitBytes=4096)
    assert normalize(read_export(out)) == normalize(decode_store(live.root))
    assert result.manifest["messages"] == 160
    rewritten = [path for path, at in times.items() if path.stat().st_mtime_ns != at]
    assert len(rewritten) <= 1  # the split that contained the end of the log
    assert not stray.exists()


def test_an_interrupted_run_is_resumed(run_job: Any, make_log: MakeLog, tmp_path: Path) -> None:
    log = make_log(file_size=1 << 16)
    for _ in range(150):
        log.put()
    out = tmp_path / "out"
    run_job("export", log.root, out=str(out), splitBytes=8192)
    records = sorted((out / SPLITS).iterdir())
    (out / "manifest.json").unlink()
    records[1].unlink()
    lost = read_record(out, records[2].stem)
    assert lost is not None
    (out / lost.files[0].path).unlink()
    records[3].write_bytes(b"")  # as after a power cut
    kept = (out / by_name(out, records[0].stem)).stat().st_mtime_ns
    run_job("export", log.root, out=str(out), splitBytes=8192)
    assert normalize(read_export(out)) == normalize(decode_store(log.root))
    assert (out / "manifest.json").exists()
    assert (out / by_name(out, records[0].stem)).stat().st_mtime_ns == kept
    assert read_record(out, records[3].stem) is not None


def by_name(out: Path, name: str) -> str:
    record = read_record(out, name)
    assert record is not None
    return record.files[0].path


def test_an_export_with_other_parameters_is_refused(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    log = make_log()
    log.put()
    out = tmp_path / "out"
    run_job("export", log.root, out=str(out))
    with pytest.raises(ConfigError, match="limits"):
        run_job("export", log.root, out=str(out), topic="TopicA")
    with pytest.raises(ConfigError, match="way"):
        run_job("export", log.root, out=str(out), stream=True, available_now=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "own.txt").touch()
    with pytest.raises(ConfigError, match="is not empty"):
        run_job("export", log.root, out=str(tmp_path / "full"))
    with pytest.raises(ConfigError, match="no output directory"):
        run_job("export", log.root)


def test_damaged_regions_are_skipped_and_counted(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    log = make_log(file_size=8192)
    places = [log.put() for _ in range(20)]
    log.write(places[5] + 4, b"\0\0\0\0")
    log.write(places[11] + 90, b"\xff\xff")
    result = run_job("export", log.root, out=str(tmp_path / "out"))
    rows = read_export(tmp_path / "out")
    assert [row["physical_offset"] for row in rows] == [p for p in places if p != places[5]]
    assert [row["crc_ok"] for row in rows].count(False) == 1
    assert result.damages.count == 2
    assert f"magic at physical offset {places[5]}" in result.damages.detail


def test_other_formats_are_rewritten_completely(
    run_job: Any, spark: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root = store_roots["retry-dlq-533"]
    out = tmp_path / "out"
    for _ in range(2):  # the second replaces the first
        result = run_job("export", root, out=str(out), format="json", columns="keys,store_time")
        assert result.rows[0]["rows"] == 83
        frame = spark.read.json(str(out / "messages"))
        assert frame.where("topic = '%DLQ%CG_fail'").count() == 10
    assert not list(out.glob(".mqadmin-*"))


# ---- streams


def test_a_stream_resumes_where_it_ended(
    run_job: Any, live_store: MakeLiveStore, tmp_path: Path
) -> None:
    live = live_store(tmp_path / "live", file_size=16_384)
    out = tmp_path / "out"
    given = {"out": str(out), "stream": True, "available_now": True, "maxBytesPerTrigger": 9000}
    for _ in range(2):
        live.put(70, size=250)
        result = run_job("export", live.root, **given)
        assert normalize(read_export(out)) == normalize(decode_store(live.root))
    assert result.manifest["messages"] == 140
    assert json.loads((out / PARAMETERS).read_text())["way"] == "stream"


PROGRAM = """
import sys
from pathlib import Path
from mqadmin.pipeline.run import Request, run
from mqadmin.pipeline.spark.session import SparkSettings
from mqadmin.pipeline.spark import java

store, out, pid = sys.argv[1:4]
start = java.Gateway.connect
def connect(self):
    start(self)
    Path(pid).write_text(str(self.process.pid))
java.Gateway.connect = connect
run(Request(job="export", stores=[store], out=out, stream=True,
            available_now=len(sys.argv) > 4, parameters={"maxBytesPerTrigger": "4000"},
            settings=SparkSettings(master="local[2]", heap="1g",
                                   flags=("-XX:TieredStopAtLevel=1",))))
"""


@pytest.fixture
def spark_program(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start another process that exports a stream and writes the id of its JVM to a file."""

    def start(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def test_no_row_is_lost_or_duplicated_when_the_jvm_is_killed(
    spark_program: Any,
    live_store: MakeLiveStore,
    tmp_path: Path,
) -> None:
    """A broker writes all the time; the JVM is killed between two batches."""
    live = live_store(tmp_path / "live", file_size=32_768)
    live.put(300, size=200)
    out, pid = tmp_path / "out", tmp_path / "pid"
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.wait(0.05):
            live.put(2, size=300)

    writer = threading.Thread(target=keep_writing)
    process = spark_program(str(live.root), str(out), str(pid))
    writer.start()
    try:
        deadline = time.monotonic() + 120
        while len(list((out / SPLITS).glob("*.json"))) < 4:
            assert process.poll() is None, process.stdout.read().decode()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        stop.set()
        writer.join()
        process.kill()
    assert process.returncode != 0
    so_far = len(read_export(out))
    assert 0 < so_far < live.count
    again = spark_program(str(live.root), str(out), str(pid), "available-now")
    output, _ = again.communicate(timeout=200)
    assert again.returncode == 0, output.decode()
    assert normalize(read_export(out)) == normalize(decode_store(live.root))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["messages"] == live.count


def test_a_stream_skips_removed_files_if_data_loss_is_allowed(
    run_job: Any, make_log: MakeLog, tmp_path: Path
) -> None:
    log = make_log(file_size=8192)
    places = [log.put() for _ in range(20)]
    out = tmp_path / "out"
    given = {"out": str(out), "stream": True, "available_now": True}
    run_job("export", log.root, **given)
    places += [log.put() for _ in range(60)]
    for start in (0, 8192):
        log.file(start).unlink()
    with pytest.raises(StoreError, match="were removed before they were read"):
        run_job("export", log.root, **given)
    result = run_job("export", log.root, **given, failOnDataLoss="false")
    found = [row["physical_offset"] for row in read_export(out)]
    assert sorted(found) == [*places[:20], *(place for place in places[20:] if place >= 16_384)]
    assert result.manifest["messages"] == len(found)


def test_complete_splits_are_not_planned_again(make_log: MakeLog, tmp_path: Path) -> None:
    log = make_log(file_size=4096)
    while log.end < 4096 * 3:
        log.put()
    options = {
        "path": str(log.root),
        "out": str(tmp_path / "out"),
        "columns": "topic,physical_offset",
        "splitBytes": "2048",
    }
    reader = ExportReader(options)
    planned = reader.partitions()
    assert len(planned) > 4
    for split in planned[:3]:
        list(reader.read(split))
    assert [s.start + s.base for s in reader.partitions()] == [
        s.start + s.base for s in planned[3:]
    ]
    records = [read_record(reader.out, parquet.split_name(s)) for s in planned[:3]]
    (row,) = by_partition(records)
    assert (row["topic"], row["files"]) == ("TopicA", 3)
