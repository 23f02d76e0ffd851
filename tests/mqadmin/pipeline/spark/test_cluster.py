"""A Spark master and worker on this host, with a Python that does not have this project.

The workers get this project as a zip; pyarrow, numpy and PySpark are installed there.
"""

import json
import os
import re
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mqadmin.pipeline.spark.java import java_home, spark_home
from mqadmin.pipeline.spark.session import package_zip

GOLDEN = Path(__file__).parents[1] / "golden"
TIMEOUT_S = 240


class Cluster(NamedTuple):
    """The URL of the master, and the environment of its clients."""

    url: str
    environment: dict[str, str]


class Daemon:
    """A process of the cluster; a thread reads its output."""

    def __init__(self, name: str, words: list[str], environment: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=cwd,
        )
        self.output: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.output.append(line)
                self._changed.notify_all()
        with self._changed:
            self.output.append("the process ended")
            self._changed.notify_all()

    def wait_for(self, pattern: str) -> str:
        """Wait for output that matches a pattern; return the first group."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, "".join(self.output))

        with self._changed:
            self._changed.wait_for(
                lambda: found() or self.output[-1:] == ["the process ended"], TIMEOUT_S
            )
            match = found()
        assert match is not None, "".join(self.output)[-3000:]
        return match[1]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(TIMEOUT_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a Python with the installed packages, but without this project."""
    import pyspark

    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A plain path entry: Python does not read the .pth files in it (of an editable install).
    (site / "packages.pth").write_text(f"{Path(pyspark.__file__).parent.parent}\n")
    if Path(pyspark.__file__).parent.parent.joinpath("mqadmin").exists():
        pytest.skip("this project is installed next to PySpark: the workers need no zip")
    return python


@pytest.fixture(scope="module")
def cluster(bare_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    work = tmp_path_factory.mktemp("cluster")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(bare_python),
    }
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    daemons = [Daemon("master.Master", [*here, "--port", "0"], environment, work)]
    try:
        url = daemons[0].wait_for(r"Starting Spark master at (spark://\S+)")
        daemons[0].wait_for(r"(I have been elected leader)")
        words = [*here, "-c", "2", "-m", "1g", "-d", str(work), url]
        daemons.append(Daemon("worker.Worker", words, environment, work))
        daemons[1].wait_for(r"(Successfully registered with master)")
        yield Cluster(url, environment)
    finally:
        for daemon in reversed(daemons):
            daemon.end()


def test_a_job_on_a_cluster_has_the_rows_of_a_local_run(
    cluster: Cluster, store_roots: dict[str, Path]
) -> None:
    """The command sends the package to the workers; it resolves relative paths itself."""
    root = store_roots["retry-dlq-533"]
    words = ["dlq", "--store", root.name, "--master", cluster.url, "--memory", "1g", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "mqadmin", "pipeline", "run", *words],
        env={**cluster.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=root.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.replace(str(root), "STORE"))
    assert found == json.loads((GOLDEN / "dlq.json").read_text())


PROGRAM = """
import os
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("a program").getOrCreate()

def words(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read()

def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[1]

def look(rows):
    import mqadmin
    daemon = os.getppid()
    above = words(daemon) + words(parent(daemon))
    yield mqadmin.__file__, "CoarseGrainedExecutorBackend" in above, len(list(rows))

messages = spark.read.format("rocketmq-store").option("columns", "topic").load(sys.argv[1])
print("found", messages.where("topic = 'JobsA'").count())
for file, on_executor, rows in messages.rdd.mapPartitions(look).collect():
    print("worker", file, on_executor, rows)
"""


def test_a_program_discovers_the_source_in_a_zip(
    cluster: Cluster, bare_python: Path, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    """This project is not installed on driver or workers, and the program registers nothing."""
    zipped = package_zip(tmp_path / "mqadmin.zip")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [
            *(spark_home() / "bin" / "spark-submit", "--master", cluster.url),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            *("--py-files", zipped, program, store_roots["retry-dlq-533"]),
        ],
        env={
            **cluster.environment,
            "PYSPARK_DRIVER_PYTHON": str(bare_python),
            # Spark discovers sources before it distributes --py-files.
            "PYTHONPATH": str(zipped),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found, *workers = (line.split() for line in done.stdout.splitlines())
    assert found == ["found", "10"]
    assert workers
    for _, file, on_executor, _ in workers:
        assert "mqadmin.zip" in file
        assert on_executor == "True"
    assert sum(int(rows) for *_, rows in workers) == 83


@pytest.fixture
def bare_run(bare_python: Path, tmp_path: Path) -> Callable[..., Any]:
    """Run Python code without this project installed."""

    def run(text: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [bare_python, "-c", text],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_zip_contains_everything_needed(bare_run: Any, tmp_path: Path) -> None:
    zipped = package_zip(tmp_path / "mqadmin.zip")
    assert "No module named 'mqadmin'" in bare_run("import mqadmin").stderr
    names = (
        "pyspark_rocketmq, pyspark_rocketmq_queue, pyspark_rocketmq_index,"
        "pyspark_rocketmq_offsets, pyspark_rocketmq_verify"
    )
    done = bare_run(
        f"import sys; sys.path.insert(0, {str(zipped)!r})\n"
        f"import {names}\n"
        "import mqadmin.inspector.export.arrow, mqadmin.pipeline.run, mqadmin.pipeline.export\n"
        "print(pyspark_rocketmq.__file__, *('typer' in sys.modules, 'rich' in sys.modules))"
    )
    assert done.returncode == 0, done.stderr
    assert str(zipped) in done.stdout
    assert done.stdout.split()[-2:] == ["False", "False"]
