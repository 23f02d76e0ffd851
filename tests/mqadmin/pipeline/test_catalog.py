"""Jobs are found by name and described as struct and as text."""

import pytest

from broker.errors import ConfigError
from mqadmin.pipeline.catalog import JOBS, find_job, job_page, job_row, page_text


def test_an_unknown_job_is_refused_with_the_known_names() -> None:
    assert find_job("dlq") is JOBS["dlq"]
    with pytest.raises(ConfigError, match="no job 'trafic'") as raised:
        find_job("trafic")
    assert raised.value.hint == f"available: {', '.join(JOBS)}"


def test_a_description_has_all_parameters_tables_and_columns() -> None:
    job = JOBS["dlq"]
    page = job_page(job)
    assert [parameter.default for parameter in page.parameters] == [None]
    assert [table.table for table in page.tables] == job_row(job).tables
    times = {column.name: column.json_name for column in page.tables[1].columns}
    assert times["store_time"] == "storeTimestamp"
    text = page_text(job)
    assert "Table groups (printed by default):" in text
    for table in job.tables:
        assert all(column.meaning in text for column in table.columns), table.name
    assert max(map(len, text.splitlines())) <= 100
