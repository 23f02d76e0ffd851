"""Tables that Spark writes."""

import csv
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from mqadmin.pipeline.sinks.output import MANIFEST, Output, encode_nested_columns

TEXTS = {
    "=1+1": "'=1+1",
    "+cmd": "'+cmd",
    "-2+3": "'-2+3",
    "@a": "'@a",
    "\t=1": "'\ufffd=1",
    "\uff1d1": "'\uff1d1",
    "-5": "-5",
    "+1.5e3": "+1.5e3",
    "a=b": "a=b",
    "订单": "订单",
    "a\x1b[31m\x9b\u202eb": "a\ufffd[31m\ufffd\ufffdb",
}


def test_a_csv_of_spark_holds_neither_formulas_nor_controls(spark: Any, tmp_path: Path) -> None:
    rows = [(text, number - 5) for number, text in enumerate(TEXTS)]
    frame = spark.createDataFrame(rows, "text string, number bigint").coalesce(1)
    encode_nested_columns(frame, "csv").write.csv(str(tmp_path / "out"))
    (path,) = (tmp_path / "out").glob("*.csv")
    with path.open(newline="", encoding="utf-8") as file:
        shown = list(csv.reader(file, escapechar="\\"))
    assert [text for text, _ in shown] == list(TEXTS.values())
    assert [int(number) for _, number in shown] == [number for _, number in rows]


def test_other_formats_keep_every_value(spark: Any) -> None:
    rows = [(text,) for text in TEXTS]
    frame = spark.createDataFrame(rows, "text string")
    assert [tuple(row) for row in encode_nested_columns(frame, "json").collect()] == rows


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ('{"job": "dlq"}', "contains the tables of job dlq"),
        ("{}", "has no manifest of mqadmin"),
        ("[1]", "has no manifest of mqadmin"),
        ("{", "has no manifest of mqadmin"),
    ],
)
def test_the_tables_of_another_job_are_kept(tmp_path: Path, manifest: str, message: str) -> None:
    """Otherwise the manifest would not list all tables of the directory."""
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(ConfigError, match=message):
        Output(tmp_path, "parquet", {"job": "traffic"})


def test_the_same_job_replaces_its_tables(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"job": "traffic"}')
    assert Output(tmp_path, "parquet", {"job": "traffic"}).out == tmp_path
