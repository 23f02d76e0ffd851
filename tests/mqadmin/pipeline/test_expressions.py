"""Checks of job parameters, and column expressions on small DataFrames."""

from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from broker.errors import ConfigError
from broker.message.properties import encode_properties
from mqadmin.pipeline.expressions import (
    bucket_of,
    comma_list,
    grouping,
    positive_number,
    properties_map,
    property_of,
    switch,
)


def test_parameters_are_checked() -> None:
    assert comma_list(" a, ,b,") == ["a", "b"]
    assert grouping("topic, host", ("topic", "host")) == ["topic", "host"]
    with pytest.raises(ConfigError, match="'x' is not one of topic, host"):
        grouping("x", ("topic", "host"))
    assert positive_number({"top": "7"}, "top") == 7
    for text in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(ConfigError, match="is not a whole number above 0"):
            positive_number({"top": text}, "top")
    assert switch({"body": "True"}, "body")
    with pytest.raises(ConfigError, match="neither true nor false"):
        switch({"body": "1"}, "body")


def test_of_equal_property_names_the_last_one_applies(spark: Any) -> None:
    text = encode_properties({"A": "1", "B": "x y", "CA": "3"}) + encode_properties({"A": "2"})
    text = text.decode() if isinstance(text, bytes) else text
    frame = spark.createDataFrame([(text,), ("",), (None,)], "properties string")
    rows = frame.select(
        *(property_of(name).alias(name) for name in ("A", "B", "C")),
        properties_map().alias("all"),
    ).collect()
    assert tuple(rows[0])[:3] == ("2", "x y", None)
    assert rows[0]["all"] == {"A": "2", "B": "x y", "CA": "3"}
    assert [row["all"] for row in rows[1:]] == [{}, {}]


def test_buckets_start_at_multiples_of_their_length(spark: Any) -> None:
    frame = spark.sql("SELECT timestamp_millis(90061001) AS t, timestamp_millis(-1) AS early")
    row = frame.select(
        F.unix_millis(bucket_of("t", "1h")), F.unix_millis(bucket_of("early", "1m"))
    ).first()
    assert tuple(row) == (25 * 3_600_000, -60_000)
    assert isinstance(frame.first()["t"], datetime)
    for length in ("0s", "often"):
        with pytest.raises(ConfigError, match="bucket"):
            bucket_of("t", length)
