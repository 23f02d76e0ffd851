"""A real master and a real worker on this machine, whose Python knows nothing of this project.

What the workers need of us reaches them as a zip; pyarrow, numpy and PySpark are installed there.
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

from mqadmin.pipeline.java import java_home, spark_home
from mqadmin.pipeline.session import package_zip

GOLDEN = Path(__file__).parent / "golden"
PATIENCE_S = 240


class Cluster(NamedTuple):
    """A master's URL, and the environment of programs that use it."""

    url: str
    environment: dict[str, str]


class Daemon:
    """A process of the cluster; what it says is read all the while."""

    def __init__(self, name: str, words: list[str], environment: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [spark_home() / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=cwd,
        )
        self.said: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.said.append(line)
                self._news.notify_all()
        with self._news:
            self.said.append("the process ended")
            self._news.notify_all()

    def says(self, pattern: str) -> str:
        """Wait for words; the first group of the pattern."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, "".join(self.said))

        with self._news:
            self._news.wait_for(
                lambda: found() or self.said[-1:] == ["the process ended"], PATIENCE_S
            )
            match = found()
        assert match is not None, "".join(self.said)[-3000:]
        return match[1]

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the packages of this one, in which this project is not installed."""
    import pyspark

    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # As a plain entry of the path: .pth files in there, an editable install's say, do not count.
    (site / "packages.pth").write_text(f"{Path(pyspark.__file__).parent.parent}\n")
    if Path(pyspark.__file__).parent.parent.joinpath("mqadmin").exists():
        pytest.skip("this project is installed beside PySpark as a copy: nothing to ship")
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
        url = daemons[0].says(r"Starting Spark master at (spark://\S+)")
        daemons[0].says(r"(I have been elected leader)")
        words = [*here, "-c", "2", "-m", "1g", "-d", str(work), url]
        daemons.append(Daemon("worker.Worker", words, environment, work))
        daemons[1].says(r"(Successfully registered with master)")
        yield Cluster(url, environment)
    finally:
        for daemon in reversed(daemons):
            daemon.end()


def test_a_job_on_a_cluster_gives_the_rows_of_a_local_one(
    cluster: Cluster, store_roots: dict[str, Path]
) -> None:
    """The command sends the package along; a path is taken from where the command runs."""
    root = store_roots["retry-dlq-533"]
    words = ["dlq", "--store", root.name, "--master", cluster.url, "--memory", "1g", "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "mqadmin", "pipeline", "run", *words],
        env={**cluster.environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=root.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout.replace(str(root), "STORE"))
    assert found == json.loads((GOLDEN / "dlq.json").read_text())


PROGRAM = """
import os
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("a program of somebody").getOrCreate()

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


def test_a_program_finds_the_source_in_a_zip(
    cluster: Cluster, bare_python: Path, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    """Neither the driver's nor the workers' Python has this project, and nothing is registered."""
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
            # Spark looks for sources before it hands --py-files out.
            "PYTHONPATH": str(zipped),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
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
    """Run a line of Python where this project is not installed."""

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


def test_the_zip_is_all_that_is_needed(bare_run: Any, tmp_path: Path) -> None:
    zipped = package_zip(tmp_path / "mqadmin.zip")
    assert "No module named 'mqadmin'" in bare_run("import mqadmin").stderr
    names = (
        "pyspark_rocketmq, pyspark_rocketmq_queue, pyspark_rocketmq_index,"
        "pyspark_rocketmq_offsets, pyspark_rocketmq_verify"
    )
    done = bare_run(
        f"import sys; sys.path.insert(0, {str(zipped)!r})\n"
        f"import {names}\n"
        "import mqadmin.inspector.arrow, mqadmin.pipeline.run, mqadmin.pipeline.export\n"
        "print(pyspark_rocketmq.__file__, *('typer' in sys.modules, 'rich' in sys.modules))"
    )
    assert done.returncode == 0, done.stderr
    assert str(zipped) in done.stdout
    assert done.stdout.split()[-2:] == ["False", "False"]
