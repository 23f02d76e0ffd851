"""Parameters and tables of a job are looked up by name; columns are renamed for JSON."""

import pytest

from broker.errors import ConfigError
from mqadmin.pipeline.job import TOP, Job, Table, camel, columns, row_class

JOB = Job(
    name="some-job",
    summary="",
    text="",
    example="",
    tables=(
        Table("first", "a table", columns(("store_time", "time", ""))),
        Table("second", "", ()),
    ),
    parameters=(TOP,),
)


def test_the_first_table_is_the_default() -> None:
    assert JOB.table("") is JOB.tables[0]
    assert JOB.table("second") is JOB.tables[1]
    with pytest.raises(ConfigError, match="job some-job has no table 'x'") as raised:
        JOB.table("x")
    assert raised.value.hint == "available: first, second"


def test_parameters_have_defaults_and_unknown_ones_are_refused() -> None:
    assert JOB.settings({}) == {"top": "20"}
    assert JOB.settings({"top": "5"}) == {"top": "5"}
    with pytest.raises(ConfigError, match="no parameter 'x'") as raised:
        JOB.settings({"x": "1"})
    assert raised.value.hint == "available: top"


def test_columns_are_camel_case_and_times_are_timestamps() -> None:
    assert camel("physical_offset", "int") == "physicalOffset"
    assert camel("store_time", "time") == "storeTimestamp"
    assert camel("store_time") == "storeTime"
    rows = row_class(JOB.tables[0], JOB)
    assert (rows.__name__, rows.__struct_fields__) == ("SomeJobFirst", ("storeTimestamp",))
    assert rows.__doc__ == "a table"
