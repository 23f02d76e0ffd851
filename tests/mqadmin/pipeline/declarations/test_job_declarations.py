"""Declarations are consistent with each other, and readable without Spark."""

import subprocess
import sys

import pytest

from mqadmin.pipeline.catalog import JOBS
from mqadmin.pipeline.job import TYPES, Job, camel, row_class


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_columns_have_known_types_and_shown_columns_exist(job: Job) -> None:
    assert job.example.startswith(f"mqadmin pipeline run {job.name} ")
    for table in job.tables:
        assert {column.type for column in table.columns} <= set(TYPES)
        names = {camel(column.name, column.type) for column in table.columns}
        names |= {name.removesuffix("Timestamp") + "Time" for name in names}
        assert set(table.shown) <= names, table.name


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_row_types_have_the_names_of_the_command_line(job: Job) -> None:
    for table in job.tables:
        fields = row_class(table, job).__struct_fields__
        assert fields == tuple(camel(column.name, column.type) for column in table.columns)


def test_declarations_do_not_import_spark() -> None:
    program = "import sys, mqadmin.pipeline.catalog; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "mqadmin.pipeline.declarations.traffic" in done.stdout
    assert not {"pyspark", "numpy", "pyarrow"} & set(done.stdout.split())
