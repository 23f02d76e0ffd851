"""``mqadmin pipeline run`` on Spark: golden results, files, exit statuses, messages."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.pipeline import run
from mqadmin.pipeline.catalog import JOBS
from mqadmin.pipeline.job import camel
from tests.support.pipeline_store import MakeLiveStore, MakeLog

Run = Callable[..., Any]
GOLDEN = Path(__file__).parent / "golden"

# job.table -> recorded store, further arguments
CASES: dict[str, tuple[str, list[str]]] = {
    "traffic": ("normal-stop-533", ["--param", "by=topic,tag"]),
    "traffic.hot-keys": ("normal-stop-533", ["--param", "top=5"]),
    "traffic.skew": ("normal-stop-533", []),
    "export": ("retry-dlq-533", []),
    "dlq": ("retry-dlq-533", []),
    "retries": ("retry-dlq-533", []),
    "lag-history": ("normal-stop-533", ["--param", "offsets={offsets}"]),
    "audit": ("kill9-async-533", []),
    "latency": ("delay-533", []),
    "latency.delayed": ("delay-533", []),
    "latency.transactions": ("transaction-533", []),
    "diff.topics": ("pair-533", ["--param", "other={slave}"]),
    "keys": ("normal-stop-533", []),
    "keys.files": ("normal-stop-533", []),
}


def test_every_job_has_a_golden_result() -> None:
    assert {name.partition(".")[0] for name in CASES} == set(JOBS)
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_job_on_a_recorded_store_has_its_golden_result(
    case: str, mqadmin: Run, shared_session: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    """``SCREENS=write`` rewrites them; the tests of the jobs check that they are correct."""
    name, words = CASES[case]
    job, _, table = case.partition(".")
    store = store_roots[name]
    slave = store_roots.get(f"{name}/slave", store)
    # The time of the file is that of the snapshot; other tests read the file of the store.
    offsets = tmp_path / "consumerOffset.json"
    shutil.copyfile(store / "config" / "consumerOffset.json", offsets)
    os.utime(offsets, (1_795_180_000, 1_795_180_000))
    given = [word.format(store=store, slave=slave, offsets=offsets) for word in words]
    if table:
        given += ["--table", table]
    if job == "export":
        given += ["--out", str(tmp_path / "out")]
    done = mqadmin("pipeline", "run", job, "--store", str(store), *given, "-o", "json")
    assert done.status == (1 if job == "diff" else 0), done.err
    found = json.loads(done.out.replace(str(store), "STORE"))
    assert found["schema"] == f"mqadmin.pipeline.run.{case}/1"
    for row in found["items"]:
        row.pop("fileBytes", None)  # depends on the version of the Parquet library
    path = GOLDEN / f"{case}.json"
    if os.environ.get("SCREENS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


def test_rows_have_exactly_the_documented_columns(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path]
) -> None:
    root = store_roots["retry-dlq-533"]
    for job, table in (("dlq", "replay"), ("retries", "chains"), ("lag-history", "groups")):
        done = mqadmin(
            "pipeline", "run", job, "--store", str(root), "--table", table, "-o", "ndjson"
        )
        row = json.loads(done.out.splitlines()[0])
        columns = JOBS[job].table(table).columns
        names = {camel(column.name, column.type) for column in columns}
        readable = {name[:-9] + "Time" for name in names if name.endswith("Timestamp")}
        assert set(row) == names | readable


@pytest.mark.parametrize(("words", "status"), [(("--limit", "2"), 0), ((), 5)])
def test_rows_beyond_the_limit_are_cut_and_reported(
    mqadmin: Run,
    shared_session: Any,
    store_roots: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    status: int,
) -> None:
    """The result of a limit that was asked for is complete, as that of any list."""
    monkeypatch.setattr(run, "MAX_ROWS", 2)
    root = str(store_roots["normal-stop-533"])
    done = mqadmin("pipeline", "run", "traffic", "--store", root, *words, "-o", "json")
    found = json.loads(done.out)
    assert (len(found["items"]), found["truncated"], done.status) == (2, True, status)


def test_damaged_regions_are_reported_once_with_status_5(
    mqadmin: Run, shared_session: Any, make_log: MakeLog
) -> None:
    log = make_log(file_size=8192)
    places = [log.put() for _ in range(20)]
    log.write(places[5] + 4, b"\0\0\0\0")
    done = mqadmin("pipeline", "run", "traffic", "--store", str(log.root))
    assert done.status == 5
    assert "19" in done.out
    assert done.err.startswith(
        f"error: damaged regions of the log skipped: 1; the first ({log.root} at"
    )
    assert f"at {places[5]}): magic" in done.err
    done = mqadmin("pipeline", "run", "traffic", "--store", str(log.root), "-o", "json")
    (error,) = json.loads(done.out)["errors"]
    assert (error["kind"], error["physicalOffset"], error["count"]) == ("damaged", places[5], 1)


def test_a_removed_file_is_reported_in_one_line_with_status_7(
    mqadmin: Run, shared_session: Any, make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised on a worker and keeps its type and fields."""

    log = make_log(file_size=4096)
    for _ in range(40):
        log.put()

    def planned(inputs: Any) -> dict[str, Any]:
        frame = inputs.messages("topic")
        frame.count()  # Spark plans the splits of a DataFrame once
        log.file(4096).unlink()
        return {"traffic": frame}

    monkeypatch.setitem(run.JOB_FUNCTIONS, "traffic", planned)
    done = mqadmin("pipeline", "run", "traffic", "--store", str(log.root))
    assert done.status == 7
    place = f"{log.file(4096)} at physical offset 4096"
    assert done.err.splitlines() == [
        f"error: job traffic: cannot read {place}: No such file or directory",
        "hint: store directories must be readable under the same path on every worker",
    ]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["traffic", "--store", "/nowhere"], 2, "no such file or directory: /nowhere"),
        (["traffic", "--store", "/nowhere/*"], 2, "no file matches /nowhere/*"),
        (["traffic"], 2, "no store"),
        (["trafic", "--store", "/tmp"], 2, "no job 'trafic'"),
        (["traffic", "--store", "/tmp", "--param", "x=1"], 2, "no parameter 'x'"),
        (["traffic", "--store", "/tmp", "--table", "x"], 2, "no table 'x'"),
        (["traffic", "--store", "/tmp", "--stream"], 2, "--stream applies only to the job export"),
        (["export", "--store", "/tmp"], 2, "no output directory"),
        (["dlq", "--store", "/tmp", "--plot", "a.png"], 2, "job dlq has no plot"),
        (["traffic", "--store", "/tmp", "--plot", "a.gif"], 2, "unknown image format"),
        (["traffic", "--store", "/tmp", "--plot", "/nowhere/a.png"], 2, "not a writable directory"),
        (["traffic", "--store", "/tmp", "--memory", "lots"], 2, "'lots' is not a Java heap size"),
        (["traffic", "--store", "/nowhere", "/tmp"], 2, "no such file or directory: /nowhere"),
        (["traffic", "--store", "/tmp", "--since", "now", "--until", "-1h"], 2, "before"),
    ],
)
def test_an_invalid_request_is_refused_before_spark_starts(
    mqadmin: Run, words: list[str], status: int, message: str
) -> None:
    done = mqadmin("pipeline", "run", *words)
    assert (done.status, done.out) == (status, "")
    assert message in done.err


def test_tables_are_written_completely_and_the_manifest_last(
    mqadmin: Run, shared_session: Any, spark: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root, out = str(store_roots["normal-stop-533"]), tmp_path / "out"
    words = ["pipeline", "run", "traffic", "--store", root, "--out", str(out)]
    done = mqadmin(*words, "-o", "json")
    assert done.status == 0, done.err
    items = json.loads(done.out)["items"]
    assert {item["table"] for item in items} == {"traffic", "hot-keys", "skew"}
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["job"] == "traffic"
    assert manifest["stores"][0]["path"] == root
    assert manifest["tables"]["traffic"]["rows"] == 7
    frame = spark.read.parquet(str(out / "traffic"))
    assert {row.topic for row in frame.collect()} >= {"OrdersA", "BigA"}
    assert [column.name for column in JOBS["traffic"].tables[0].columns] == frame.columns
    csv = mqadmin(*words, "--format", "csv", "--table", "skew")
    assert csv.status == 0
    assert not (out / "skew").is_file()
    assert not list(out.glob(".mqadmin-*"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    done = mqadmin(*words[:-1], str(tmp_path / "own"))
    assert (done.status, "is not empty" in done.err) == (2, True)


def test_a_format_without_its_jars_is_refused(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root, out = str(store_roots["normal-stop-533"]), tmp_path / "out"
    words = ["pipeline", "run", "traffic", "--store", root, "--out", str(out)]
    done = mqadmin(*words, "--format", "delta")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: job traffic: Spark has no format 'delta'\nhint: available: ")
    assert not (out / "traffic").exists()
    assert not (out / "manifest.json").exists()
    assert mqadmin(*words).status == 0


def test_several_stores_may_follow_the_option_store(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path]
) -> None:
    """A shell expands --store /data/*/store to several arguments."""
    roots = [str(store_roots[name]) for name in ("normal-stop-533", "retry-dlq-533", "delay-533")]
    done = mqadmin(
        *("pipeline", "run", "traffic", "--store", *roots, "--param", "by=store", "-o", "json")
    )
    assert done.status == 0, done.err
    assert {item["store"] for item in json.loads(done.out)["items"]} == set(roots)


def test_a_repeated_run_reuses_its_completed_tables(
    mqadmin: Run,
    shared_session: Any,
    store_roots: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mqadmin.pipeline.sinks.output import Output

    root, out = str(store_roots["normal-stop-533"]), tmp_path / "out"
    words = ["pipeline", "run", "traffic", "--store", root, "--out", str(out)]
    original = Output.write
    written: list[str] = []

    def write(self: Any, name: str, *given: Any) -> None:
        if name == "skew" and len(written) == 2:
            raise OSError(28, "No space left on device", str(out))
        written.append(name)
        original(self, name, *given)

    monkeypatch.setattr(Output, "write", write)
    assert mqadmin(*words).status == 5
    assert not (out / "traffic").exists()
    assert not (out / "manifest.json").exists()
    (waiting,) = out.glob(".mqadmin-*")
    times = {path: path.stat().st_mtime_ns for path in (waiting / "traffic").iterdir()}
    monkeypatch.setattr(Output, "write", original)
    assert mqadmin(*words).status == 0
    moved = {path.name: path.stat().st_mtime_ns for path in (out / "traffic").iterdir()}
    assert moved == {path.name: at for path, at in times.items()}


def test_the_result_is_drawn(
    mqadmin: Run, shared_session: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    root, path = str(store_roots["normal-stop-533"]), tmp_path / "traffic.html"
    done = mqadmin("pipeline", "run", "traffic", "--store", root, "--plot", str(path))
    assert done.status == 0
    assert "OrdersA" in path.read_text()
    assert f"plot written to {path}" in done.err


def test_progress_is_shown_on_a_terminal_only(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqadmin.command.pipeline import Bar
    from mqadmin.pipeline.spark.progress import Progress

    written: list[str] = []

    class Terminal:
        is_machine = False

    monkeypatch.setattr("mqadmin.command.pipeline.write_err", written.append)
    quiet = Bar(Terminal())  # type: ignore[arg-type]
    quiet.show(Progress(subject="x", done=1, total=2))
    quiet.clear()
    assert not written
    monkeypatch.setattr("mqadmin.command.pipeline.stderr_is_terminal", lambda: True)
    bar = Bar(Terminal())  # type: ignore[arg-type]
    bar.show(Progress(subject="traffic", done=3, total=6))
    bar.show(Progress(subject="done"))
    bar.clear()
    assert written[0] == "\rtraffic [###############...............] 3/6 tasks"
    assert written[1].rstrip() == "\rdone"
    assert written[2].strip() == ""


@pytest.fixture
def spark_program() -> Callable[..., subprocess.Popen[str]]:
    """Start the command in another process, with its own JVM."""

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "mqadmin", "pipeline", "run", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    return start


def descendants(pid: int) -> list[int]:
    """Return the child processes of a process, recursively."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[1]) == pid:
                found += [int(folder.name), *descendants(int(folder.name))]
    return found


def test_a_run_prints_only_its_rows_and_an_interrupt_ends_all_its_processes(
    spark_program: Any, store_roots: dict[str, Path], live_store: MakeLiveStore, tmp_path: Path
) -> None:
    done = spark_program("dlq", "--store", str(store_roots["retry-dlq-533"]), "-o", "csv")
    out, err = done.communicate(timeout=200)
    assert (done.returncode, err) == (0, "")
    assert out.splitlines()[1].startswith("CG_fail,JobsA,10,")

    live = live_store(tmp_path / "live")
    live.put(50)
    target = tmp_path / "out"
    words = ["export", "--store", str(live.root), "--out", str(target), "--stream"]
    process = spark_program(*words, "--master", "local[1]")
    deadline = time.monotonic() + 200
    reader = threading.Thread(target=process.stderr.read)
    reader.start()
    try:
        while not (target / "manifest.json").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(100) == 130
    finally:
        process.kill()
        reader.join()
        process.stdout.close()
        process.stderr.close()
    assert json.loads((target / "manifest.json").read_text())["messages"] == 50
    assert started
    gone = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in started):
        assert time.monotonic() < gone
        time.sleep(0.05)
