"""Fixtures of the pipeline tests: one Spark session for all of them, and stores to read.

A JVM takes seconds to start, so all tests that need Spark share one session. Without the extra
``spark`` only the modules in NO_SPARK_NEEDED are collected; ``scripts/test`` reports that.
"""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.pipeline_store import LiveStore, LogBuilder, MakeLiveStore, MakeLog

HAS_SPARK = importlib.util.find_spec("pyspark") is not None
STORES = sorted(
    path.name.removesuffix(".tar.xz")
    for path in (Path(__file__).parents[2] / "golden" / "stores").glob("*.tar.xz")
)

NO_SPARK_NEEDED = {
    "test_extra.py",
    "test_plot.py",
    "test_options.py",
    "test_atomic_file.py",
    "test_job_declarations.py",
    "test_catalog.py",
    "test_job.py",
}
collect_ignore = [
    str(path)
    for path in Path(__file__).parent.rglob("test_*.py")
    if not HAS_SPARK and path.name not in NO_SPARK_NEEDED
]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that start a JVM."""
    if Path(__file__).parent in item.path.parents and (
        {"spark", "spark_program", "cluster"} & set(getattr(item, "fixturenames", ()))
    ):
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The shared session, on two cores."""
    if not HAS_SPARK:
        pytest.skip("the extra spark is not installed")
    from mqadmin.pipeline.spark.session import SparkSettings, spark_session

    # The optimising compiler costs more than it saves in many small queries.
    flags = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    with spark_session(SparkSettings(master="local[2]", heap="1g", flags=flags)) as session:
        yield session


@pytest.fixture
def make_log(tmp_path: Path) -> MakeLog:
    """``make_log(file_size=…)``: an empty log to append messages to."""

    def make(name: str = "store", **settings: int) -> LogBuilder:
        return LogBuilder(tmp_path / name, **settings)

    return make


@pytest.fixture(scope="session")
def store_roots(golden_store: Callable[..., Path]) -> dict[str, Path]:
    """Every recorded store by name; the slaves of pairs as ``NAME/slave``."""
    roots = {}
    for name in STORES:
        folder = golden_store(name)
        for part in ("store", "master", "slave"):
            if (folder / part).is_dir():
                roots[name if part != "slave" else f"{name}/slave"] = folder / part
    return roots


@pytest.fixture
def live_store() -> Iterator[MakeLiveStore]:
    """``live_store(folder, file_size=…)``: a store written by the broker's store engine."""
    made: list[LiveStore] = []

    def make(root: Path, file_size: int = 1 << 16) -> LiveStore:
        made.append(LiveStore(root, file_size))
        return made[-1]

    yield make
    for live in made:
        live.shutdown()


@pytest.fixture
def shared_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let runs of jobs use the tests' session instead of starting another JVM."""

    @contextmanager
    def session(_: Any) -> Iterator[Any]:
        yield spark

    monkeypatch.setattr("mqadmin.pipeline.run.spark_session", session)
    return spark


@pytest.fixture
def run_job(shared_session: Any) -> Callable[..., Any]:
    """``run_job("traffic", root, table="skew", by="topic")``: the result of a job."""
    from mqadmin.pipeline.run import Request, run

    names = {field for field in Request.__struct_fields__ if field not in ("job", "parameters")}

    def call(job: str, *stores: Path, **given: Any) -> Any:
        fields = {name: value for name, value in given.items() if name in names}
        parameters = {name: str(value) for name, value in given.items() if name not in names}
        paths = [str(store) for store in stores]
        return run(Request(job=job, stores=paths, parameters=parameters, **fields))

    return call
