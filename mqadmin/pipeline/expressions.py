"""Expressions that jobs share: properties out of the stored string, hosts, buckets, percentiles."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.common.times import parse_duration_ms
from broker.errors import ConfigError, RocketMQError

if TYPE_CHECKING:
    from pyspark.sql import Column

ACCURACY: Final = 10_000  # of percentile_approx: exact up to that many different values


def property_of(name: str, column: str = "properties") -> "Column":
    """One property of a message, null without it; the last one counts, as in Java."""
    from pyspark.sql import functions as F

    found = F.regexp_extract(
        F.concat(F.lit("\x02"), F.col(column)), f"(?s).*\x02{re.escape(name)}\x01([^\x02]*)", 1
    )
    return F.nullif(found, F.lit(""))


def properties_map(column: str = "properties") -> "Column":
    """All properties as a map; the last of equal names counts."""
    from pyspark.sql import functions as F

    pieces = F.split(F.col(column), "\x02")
    pairs = F.filter(pieces, lambda piece: piece.rlike("(?s)^[^\x01]+\x01."))
    names = F.transform(pairs, lambda pair: F.substring_index(pair, "\x01", 1))
    # The first in the reversed list is the last in the string.
    backwards = F.reverse(pairs)
    found = F.transform(
        F.array_distinct(names),
        lambda name: F.struct(
            name,
            F.get(
                F.filter(backwards, lambda pair: F.startswith(pair, F.concat(name, F.lit("\x01")))),
                0,
            ).substr(F.length(name) + 2, F.lit(1 << 30)),
        ),
    )
    return F.coalesce(F.map_from_entries(found), F.create_map().cast("map<string,string>"))


def host_of(column: str) -> "Column":
    """A host without its port."""
    from pyspark.sql import functions as F

    return F.regexp_replace(F.col(column), r":\d+$", "")


def bucket_of(column: str, length: str) -> "Column":
    """The begin of the time bucket a time lies in. ConfigError for a length that is none."""
    from pyspark.sql import functions as F

    try:
        length_ms = parse_duration_ms(length)
    except RocketMQError as error:
        raise ConfigError(f"parameter bucket: {error.message}", error.hint) from error
    if length_ms <= 0:
        raise ConfigError("parameter bucket: must be longer than 0")
    ms = F.unix_millis(F.col(column))
    return F.timestamp_millis(ms - F.pmod(ms, F.lit(length_ms)))


def percentiles(column: "Column", shares: Sequence[float]) -> "Column":
    """An array: the least value that a share of all values does not exceed."""
    from pyspark.sql import functions as F

    return F.percentile_approx(column, [float(share) for share in shares], ACCURACY)


def seconds_between(first: str, last: str) -> "Column":
    """Seconds from one time to another."""
    from pyspark.sql import functions as F

    return (F.unix_millis(F.col(last)) - F.unix_millis(F.col(first))) / 1000.0


def grouping(text: str, known: Sequence[str]) -> list[str]:
    """The words of a parameter ``by``. ConfigError for one that is not known."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise ConfigError(f"parameter by: {word!r} is not one of {', '.join(known)}")
    return words


def whole_number(parameters: dict[str, str], name: str) -> int:
    """A parameter that is a number above 0. ConfigError if it is none."""
    text = parameters[name]
    if not text.isdigit() or int(text) == 0:
        raise ConfigError(f"parameter {name}: {text!r} is no whole number above 0")
    return int(text)


def switch(parameters: dict[str, str], name: str) -> bool:
    """A parameter that is true or false. ConfigError if it is neither."""
    text = parameters[name].lower()
    if text not in ("true", "false"):
        raise ConfigError(f"parameter {name}: {text!r} is neither true nor false")
    return text == "true"
