"""Spark discovers the sources by name in sessions that register nothing."""

import importlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.pipeline.spark.java import java_home, spark_home

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "mqadmin" / "pipeline" / "registration"
NAMES = {
    "pyspark_rocketmq": "rocketmq-store",
    "pyspark_rocketmq_queue": "rocketmq-queue",
    "pyspark_rocketmq_index": "rocketmq-index",
    "pyspark_rocketmq_offsets": "rocketmq-offsets",
    "pyspark_rocketmq_verify": "rocketmq-verify",
}


def test_every_module_has_one_source() -> None:
    assert {path.stem for path in FOLDER.glob("pyspark_*.py")} == set(NAMES)
    for module, name in NAMES.items():
        source = importlib.import_module(f"mqadmin.pipeline.registration.{module}").DefaultSource
        assert source.name() == name


def test_every_module_is_installed_at_the_top_level() -> None:
    """In wheels and in editable installs."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    forced = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert forced == {f"mqadmin/pipeline/registration/{name}.py": f"{name}.py" for name in NAMES}
    missing = [name for name in NAMES if importlib.util.find_spec(name) is None]
    assert not missing, "the installation is older than these modules: run pip install -e ."


PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
store = sys.argv[1]
messages = spark.read.format("rocketmq-store").option("columns", "topic").load(store)
spark.sql(f"CREATE TEMPORARY VIEW units USING `rocketmq-queue` OPTIONS (path '{store}')")
units = spark.sql("SELECT count(*) FROM units WHERE topic = 'JobsA'").first()[0]
offsets = spark.read.format("rocketmq-offsets").load(store).count()
entries = spark.read.format("rocketmq-index").load(store).count()
print("found", messages.where("topic = 'JobsA'").count(), units, offsets > 0, entries > 0)
"""


@pytest.fixture
def spark_program(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program with spark-submit."""

    def run(text: str, *words: str) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "program.py"
        path.write_text(text)
        return subprocess.run(
            [
                *(str(spark_home() / "bin" / "spark-submit"), "--master", "local[2]"),
                *("--conf", "spark.ui.enabled=false", str(path), *words),
            ],
            env={
                **os.environ,
                "JAVA_HOME": str(java_home()),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return run


def test_spark_submit_and_sql_discover_the_sources(
    spark_program: Any, store_roots: dict[str, Path]
) -> None:
    done = spark_program(PROGRAM, str(store_roots["retry-dlq-533"]))
    assert done.stdout.strip() == "found 10 10 True True", done.stderr[-3000:]
