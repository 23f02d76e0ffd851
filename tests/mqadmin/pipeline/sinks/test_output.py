"""Tables that Spark writes."""

import csv
from pathlib import Path
from typing import Any

from mqadmin.pipeline.sinks.output import encode_nested_columns

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
