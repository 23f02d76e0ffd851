"""``mqadmin pipeline`` without Spark: the list, the pages, errors for missing parts."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.pipeline.catalog import JOBS, camel

Run = Callable[..., Any]


def test_the_list_has_every_job(mqadmin: Run) -> None:
    done = mqadmin("pipeline", "list", "-o", "json")
    items = json.loads(done.out)["items"]
    assert [item["job"] for item in items] == list(JOBS)
    assert all(item["tables"] and item["summary"].endswith(".") for item in items)


@pytest.mark.parametrize("job", JOBS)
def test_the_page_of_a_job_is_complete(mqadmin: Run, job: str) -> None:
    done = mqadmin("pipeline", "schema", job)
    assert done.status == 0
    assert f"  mqadmin pipeline run {job} --store" in done.out
    assert max(map(len, done.out.splitlines())) <= 120
    found = json.loads(mqadmin("pipeline", "schema", job, "-o", "json").out)
    for table in found["tables"]:
        assert f"Table {table['table']}" in done.out
        for column in table["columns"]:
            assert column["meaning"] in done.out
            assert column["jsonName"] == camel(column["name"], column["type"])
    for parameter in found["parameters"]:
        assert parameter["meaning"] in done.out


def test_no_two_columns_of_a_table_have_one_name() -> None:
    for job in JOBS.values():
        assert len({table.name for table in job.tables}) == len(job.tables)
        for table in job.tables:
            names = [column.name for column in table.columns]
            assert len(set(names)) == len(names)


def test_an_unknown_job_is_named_with_those_that_there_are(mqadmin: Run) -> None:
    done = mqadmin("pipeline", "schema", "trafic")
    assert done.status == 2
    assert "traffic" in done.err


def test_without_the_extra_the_package_to_install_is_named(
    mqadmin: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip("pyspark")
    from mqadmin.pipeline.spark import java

    (tmp_path / "commitlog").mkdir()
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    done = mqadmin("pipeline", "run", "traffic", "--store", str(tmp_path))
    assert done.status == 2
    assert "PySpark, which is not installed" in done.err
    assert "pip install 'mqadmin[spark]'" in done.err


PROGRAM = """
import sys
sys.modules["pyspark"] = sys.modules["numpy"] = sys.modules["pyarrow"] = None
from mqadmin.app import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "status", "output"),
    [
        (["list"], 0, "traffic"),
        (["schema", "dlq"], 0, "Table letters"),
        (["run", "traffic", "--store", "/tmp"], 2, "pip install 'mqadmin[spark]'"),
        (["warmup"], 2, "pip install 'mqadmin[spark]'"),
        (["run", "-o", "schema"], 0, "mqadmin.pipeline.run.traffic/1"),
    ],
)
def test_the_noun_works_where_spark_cannot_be_imported(
    words: list[str], status: int, output: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "pipeline", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert output in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
