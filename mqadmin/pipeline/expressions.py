"""Column expressions and parameter checks shared by the jobs."""

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from broker.common.times import parse_duration_ms
from broker.common.topic import RETRY_PREFIX
from broker.errors import ConfigError, RocketMQError
from mqadmin.pipeline.job import Table

ACCURACY: Final = 10_000  # of percentile_approx: exact up to that many distinct values

# column type of a declaration -> Spark type
SPARK_TYPES: Final = {
    "text": "string",
    "int": "bigint",
    "float": "double",
    "bool": "boolean",
    "time": "timestamp",
    "texts": "array<string>",
    "ints": "array<bigint>",
    "map": "map<string,string>",
    "bytes": "binary",
}


def shape(frame: DataFrame, table: Table) -> DataFrame:
    """Select exactly the columns of a table, in its order and types; missing ones are null."""
    return frame.select(
        *(
            (F.col(c.name) if c.name in frame.columns else F.lit(None))
            .cast(SPARK_TYPES[c.type])
            .alias(c.name)
            for c in table.columns
        )
    )


def property_of(name: str, column: str = "properties") -> Column:
    """Return one property of a message, null if absent; the last one applies, as in Java."""
    found = F.regexp_extract(
        F.concat(F.lit("\x02"), F.col(column)), f"(?s).*\x02{re.escape(name)}\x01([^\x02]*)", 1
    )
    return F.nullif(found, F.lit(""))


def properties_map(column: str = "properties") -> Column:
    """Return all properties as a map; the last of several with the same name applies."""
    pieces = F.split(F.col(column), "\x02")
    pairs = F.filter(pieces, lambda piece: piece.rlike("(?s)^[^\x01]+\x01."))
    names = F.transform(pairs, lambda pair: F.substring_index(pair, "\x01", 1))
    # The first match in the reversed list is the last one in the string.
    reversed_pairs = F.reverse(pairs)
    entries = F.transform(
        F.array_distinct(names),
        lambda name: F.struct(
            name,
            F.get(
                F.filter(
                    reversed_pairs, lambda pair: F.startswith(pair, F.concat(name, F.lit("\x01")))
                ),
                0,
            ).substr(F.length(name) + 2, F.lit(1 << 30)),
        ),
    )
    return F.coalesce(F.map_from_entries(entries), F.create_map().cast("map<string,string>"))


def original_topic(topic: Column, group: Column) -> Column:
    """Return the topic whose POP retry topic of ``group`` (either version) this is, else null."""
    prefix = F.concat(F.lit(RETRY_PREFIX), group)
    rest = topic.substr(F.length(prefix) + 2, F.length(topic))
    separated = F.startswith(topic, F.concat(prefix, F.lit("_")))
    separated |= F.startswith(topic, F.concat(prefix, F.lit("+")))
    return F.when(separated & (rest != ""), rest)


def host_of(column: str) -> Column:
    """Return the host of a ``host:port`` column."""
    return F.regexp_replace(F.col(column), r":\d+$", "")


def bucket_of(column: str, length: str) -> Column:
    """Return the start of the time bucket of a time column.

    ``length`` is a duration such as ``1h``. ConfigError if it is not a duration above 0.
    """
    try:
        length_ms = parse_duration_ms(length)
    except RocketMQError as error:
        raise ConfigError(f"parameter bucket: {error.message}", error.hint) from error
    if length_ms <= 0:
        raise ConfigError("parameter bucket: must be longer than 0")
    ms = F.unix_millis(F.col(column))
    return F.timestamp_millis(ms - F.pmod(ms, F.lit(length_ms)))


def percentiles(column: Column, shares: Sequence[float]) -> Column:
    """Return an array with the smallest value not exceeded by each share (0 to 1) of values."""
    return F.percentile_approx(column, [float(share) for share in shares], ACCURACY)


def percentile_columns(frame: DataFrame, array: str, names: Sequence[str]) -> DataFrame:
    """Add the elements of an array column under the given names."""
    return frame.select("*", *(F.col(array)[at].alias(name) for at, name in enumerate(names)))


def seconds_between(first: str, last: str) -> Column:
    """Return the seconds from one time column to another."""
    return (F.unix_millis(F.col(last)) - F.unix_millis(F.col(first))) / 1000.0


def grouping_columns(
    words: Sequence[str], known: dict[str, tuple[str, str]], bucket: str
) -> dict[str, Column]:
    """Return the grouping expressions by result column, ``bucket_time`` last.

    ``known`` maps each word to its (result column, source column); hosts lose their port.
    """
    groups = {}
    for word in words:
        name, source = known[word]
        groups[name] = host_of(source) if word == "host" else F.col(source)
    if bucket:
        groups["bucket_time"] = bucket_of("store_time", bucket)
    return groups


def comma_list(text: str) -> list[str]:
    """Split a comma-separated parameter; empty elements are dropped."""
    return [word.strip() for word in text.split(",") if word.strip()]


def grouping(text: str, known: Sequence[str]) -> list[str]:
    """Split the parameter ``by``. ConfigError for an unknown word."""
    words = comma_list(text)
    for word in words:
        if word not in known:
            raise ConfigError(f"parameter by: {word!r} is not one of {', '.join(known)}")
    return words


def positive_number(parameters: dict[str, str], name: str) -> int:
    """Return a parameter as a number. ConfigError unless it is a whole number above 0."""
    text = parameters[name]
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"parameter {name}: {text!r} is not a whole number above 0")
    return int(text)


def switch(parameters: dict[str, str], name: str) -> bool:
    """Return a parameter as a boolean. ConfigError unless it is true or false."""
    text = parameters[name].lower()
    if text not in ("true", "false"):
        raise ConfigError(f"parameter {name}: {text!r} is neither true nor false")
    return text == "true"
