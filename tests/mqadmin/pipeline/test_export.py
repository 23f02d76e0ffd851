"""The Parquet export: every message once, whatever was cut off, grew, or was killed."""

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

import pyarrow.parquet as pq
import pytest

from broker.errors import ConfigError, StoreError
from mqadmin.pipeline import parquet
from mqadmin.pipeline.export import PARAMETERS, ExportReader, by_partition
from mqadmin.pipeline.jobs.export import ALL, wanted_columns
from mqadmin.pipeline.options import Wanted
from mqadmin.pipeline.parquet import SPLITS, SplitWriter, escaped, read_record
from mqadmin.pipeline.splits import Split, cut, log_files, written_length

FILES = "dt=*/topic=*/*.parquet"


def exported(out: Path) -> list[dict[str, Any]]:
    """All rows below a directory, the topic taken from the path."""
    from urllib.parse import unquote

    rows = []
    for path in sorted(out.glob(FILES)):
        topic = unquote(path.parent.name.removeprefix("topic="))
        day = path.parent.parent.name.removeprefix("dt=")
        for row in pq.ParquetFile(path).read().to_pylist():
            assert row["store_time"].strftime("%Y-%m-%d") == day
            rows.append({"topic": topic, **row})
    return rows


def write(split: Split, out: Path, **options: str) -> parquet.SplitRecord:
    return SplitWriter(split, out, list(ALL)).write(Wanted(), options)


def splits_of(root: Path, size: int) -> list[Split]:
    files, store = log_files(str(root))
    return [s for file in files for s in cut(file, written_length(file), size, store)]


# ---- one split, without Spark


def test_splits_together_hold_every_message_once(
    store_roots: dict[str, Path], plain_rows: Any, compared: Any, tmp_path: Path
) -> None:
    for name, root in store_roots.items():
        out = tmp_path / name.replace("/", "-")
        for split in splits_of(root, 7000):
            write(split, out)
        assert compared(exported(out)) == compared(plain_rows(root)), name


def test_what_is_too_much_to_hold_back_becomes_row_groups(
    make_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain_rows: Any, compared: Any
) -> None:
    log = make_log(file_size=1 << 18)
    for number in range(400):
        log.put(f"Topic{number % 3}", body=b"x" * 200)
    monkeypatch.setattr(parquet, "HELD_BYTES", 5_000)
    monkeypatch.setattr(parquet, "SCAN_ROWS", 25)
    (split,) = splits_of(log.root, 1 << 20)
    record = write(split, tmp_path / "out")
    assert sum(file.messages for file in record.files) == 400
    assert compared(exported(tmp_path / "out")) == compared(plain_rows(log.root))
    groups = [pq.ParquetFile(path).num_row_groups for path in (tmp_path / "out").glob(FILES)]
    assert max(groups) > 3


def test_a_split_is_complete_when_nothing_can_come_to_it(make_log: Any, tmp_path: Path) -> None:
    log = make_log(file_size=4096)
    while log.end < 4096 + 500:
        log.put()
    splits = splits_of(log.root, 2048)
    records = [write(split, tmp_path) for split in splits]
    done = [(record.start, record.complete) for record in records]
    # What is written of the last file may end anywhere in its last split.
    assert done[:2] == [(0, True), (2048, True)]
    assert not records[-1].complete
    torn = log.end
    log.put()
    log.put()
    log.write(torn + 4, b"\0\0\0\0")
    log.write(log.end, bytes(4096 - log.end % 4096))
    last = splits_of(log.root, 2048)[2]
    assert write(last, tmp_path).reached >= torn


def test_a_split_written_again_leaves_only_its_new_files(make_log: Any, tmp_path: Path) -> None:
    """The log was cut back and written anew after the first time."""
    log = make_log(file_size=8192)
    log.put("Old")
    (split,) = splits_of(log.root, 1 << 20)
    first = write(split, tmp_path)
    assert [file.topic for file in first.files] == ["Old"]
    other = make_log("other", file_size=8192)
    other.put("New")
    log.file(0).write_bytes(other.file(0).read_bytes())
    write(split, tmp_path)
    assert [path.parent.name for path in tmp_path.glob(FILES)] == ["topic=New"]
    # Also where the first time ended before it could say what it had written.
    (tmp_path / SPLITS / f"{first.name}.json").unlink()
    log.file(0).write_bytes(b"")
    log.write(0, bytes(8))
    write(split, tmp_path)
    assert not list(tmp_path.glob(FILES))


def test_a_task_that_fails_leaves_nothing_behind(
    make_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(file_size=1 << 16)
    for number in range(50):
        log.put(f"Topic{number % 3}")
    original = parquet.Partition.finish
    finished: list[Any] = []

    def failing(self: Any) -> Any:
        if finished:
            raise OSError("no space left on device")
        finished.append(original(self))
        return finished[0]

    monkeypatch.setattr(parquet.Partition, "finish", failing)
    (split,) = splits_of(log.root, 1 << 20)
    out = tmp_path / "out"
    with pytest.raises(OSError, match="no space"):
        write(split, out)
    left = [path.name for path in out.rglob("*") if path.is_file()]
    assert left == [Path(finished[0].path).name]  # whole, and written again by the next try
    assert read_record(out, parquet.split_name(split)) is None


def test_partition_names_are_those_of_spark() -> None:
    assert escaped("%RETRY%g") == "%25RETRY%25g"
    assert escaped("plain-Topic_1.x") == "plain-Topic_1.x"
    assert escaped("a/b:c=d") == "a%2Fb%3Ac%3Dd"
    assert escaped("") == "__HIVE_DEFAULT_PARTITION__"


def test_columns_of_an_export() -> None:
    assert wanted_columns({"columns": "", "body": "true"}) == list(ALL)
    assert "body" not in wanted_columns({"columns": "", "body": "false"})
    assert wanted_columns({"columns": "keys, topic", "body": "true"}) == ["topic", "keys"]


# ---- runs on Spark


def test_an_export_holds_the_rows_of_the_source(
    run_job: Any,
    spark: Any,
    store_roots: dict[str, Path],
    plain_rows: Any,
    compared: Any,
    tmp_path: Path,
) -> None:
    roots = [store_roots[name] for name in ("retry-dlq-533", "ipv6-498", "batch-cq-533")]
    out = tmp_path / "out"
    result = run_job("export", *roots, out=str(out), splitBytes=9000)
    expected = compared(row for root in roots for row in plain_rows(root))
    assert compared(exported(out)) == expected
    frame = spark.read.parquet(str(out))
    assert compared(row.asDict() | {"dt": None} for row in frame.collect()) == compared(
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


def test_a_later_run_adds_what_came_and_writes_no_whole_split_again(
    run_job: Any, live_store: Callable[..., Any], tmp_path: Path, plain_rows: Any, compared: Any
) -> None:
    live = live_store(tmp_path / "live", file_size=16_384)
    live.put(80, size=300)
    out = tmp_path / "out"
    run_job("export", live.root, out=str(out), splitBytes=4096)
    assert compared(exported(out)) == compared(plain_rows(live.root))
    times = {path: path.stat().st_mtime_ns for path in out.glob(FILES)}
    live.put(80, size=300)
    stray = next(iter(times)).with_name(".left-behind.tmp")
    stray.touch()
    result = run_job("export", live.root, out=str(out), splitBytes=4096)
    assert compared(exported(out)) == compared(plain_rows(live.root))
    assert result.manifest["messages"] == 160
    rewritten = [path for path, at in times.items() if path.stat().st_mtime_ns != at]
    assert len(rewritten) <= 1  # the split in which the log ended
    assert not stray.exists()


def test_a_run_that_was_cut_off_is_gone_on_with(
    run_job: Any, make_log: Any, tmp_path: Path, plain_rows: Any, compared: Any
) -> None:
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
    records[3].write_bytes(b"")  # as a power cut may leave it
    kept = (out / by_name(out, records[0].stem)).stat().st_mtime_ns
    run_job("export", log.root, out=str(out), splitBytes=8192)
    assert compared(exported(out)) == compared(plain_rows(log.root))
    assert (out / "manifest.json").exists()
    assert (out / by_name(out, records[0].stem)).stat().st_mtime_ns == kept
    assert read_record(out, records[3].stem) is not None


def by_name(out: Path, name: str) -> str:
    record = read_record(out, name)
    assert record is not None
    return record.files[0].path


def test_an_export_made_otherwise_is_not_mixed_up(
    run_job: Any, make_log: Any, tmp_path: Path
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
    with pytest.raises(ConfigError, match="no place to write to"):
        run_job("export", log.root)


def test_damages_are_passed_and_told(run_job: Any, make_log: Any, tmp_path: Path) -> None:
    log = make_log(file_size=8192)
    places = [log.put() for _ in range(20)]
    log.write(places[5] + 4, b"\0\0\0\0")
    log.write(places[11] + 90, b"\xff\xff")
    result = run_job("export", log.root, out=str(tmp_path / "out"))
    rows = exported(tmp_path / "out")
    assert [row["physical_offset"] for row in rows] == [p for p in places if p != places[5]]
    assert [row["crc_ok"] for row in rows].count(False) == 1
    assert result.damages.count == 2
    assert f"magic at physical offset {places[5]}" in result.damages.detail


def test_other_formats_are_written_whole(
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


def test_a_stream_goes_on_where_it_ended(
    run_job: Any, live_store: Callable[..., Any], tmp_path: Path, plain_rows: Any, compared: Any
) -> None:
    live = live_store(tmp_path / "live", file_size=16_384)
    out = tmp_path / "out"
    given = {"out": str(out), "stream": True, "available_now": True, "maxBytesPerTrigger": 9000}
    for _ in range(2):
        live.put(70, size=250)
        result = run_job("export", live.root, **given)
        assert compared(exported(out)) == compared(plain_rows(live.root))
    assert result.manifest["messages"] == 140
    assert json.loads((out / PARAMETERS).read_text())["way"] == "stream"


PROGRAM = """
import sys
from pathlib import Path
from mqadmin.pipeline.run import Request, run
from mqadmin.pipeline.session import SparkSettings
from mqadmin.pipeline import java

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
    """A process of its own that exports a stream; its virtual machine's id goes to a file."""

    def start(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def test_no_row_is_lost_or_doubled_when_the_machine_is_killed(
    spark_program: Any,
    live_store: Callable[..., Any],
    tmp_path: Path,
    plain_rows: Any,
    compared: Any,
) -> None:
    """A broker writes all the while; the virtual machine is killed amid the batches."""
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
    so_far = len(exported(out))
    assert 0 < so_far < live.count
    again = spark_program(str(live.root), str(out), str(pid), "available-now")
    said, _ = again.communicate(timeout=200)
    assert again.returncode == 0, said.decode()
    assert compared(exported(out)) == compared(plain_rows(live.root))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["messages"] == live.count


def test_a_stream_that_came_too_late_goes_on_where_that_is_allowed(
    run_job: Any, make_log: Any, tmp_path: Path
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
    found = [row["physical_offset"] for row in exported(out)]
    assert sorted(found) == [*places[:20], *(place for place in places[20:] if place >= 16_384)]
    assert result.manifest["messages"] == len(found)


def test_the_reader_plans_nothing_for_what_is_done(make_log: Any, tmp_path: Path) -> None:
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
