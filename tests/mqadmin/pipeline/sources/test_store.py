"""``rocketmq-store`` on Spark returns the rows of the record decoder, with any filter."""

import base64
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from broker.errors import ConfigError
from broker.message.properties import decode_properties
from mqadmin.pipeline.sources.options import option_paths
from mqadmin.pipeline.sources.partitions.store_reader import COLUMN_TYPES
from tests.support.pipeline_store import MakeLog, decode_store, normalize

FORMAT = "rocketmq-store"


def read(spark: Any, *paths: Path, **options: Any) -> Any:
    reader = spark.read.format(FORMAT)
    for name, value in options.items():
        reader = reader.option(name.replace("_", "."), value)
    return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))


def test_rows_of_every_recorded_store_are_equal_to_those_of_the_record_decoder(
    spark: Any, store_roots: dict[str, Path]
) -> None:
    found: dict[str, list[Any]] = {str(root): [] for root in store_roots.values()}
    for row in read(spark, *store_roots.values()).collect():
        found[row.store].append(row)
    for name, root in store_roots.items():
        assert normalize(found[str(root)]) == normalize(decode_store(root)), name


def exported(item: dict[str, Any], store: str) -> dict[str, Any]:
    """Return a line of ``mqadmin store export`` with the column names of the source."""
    names = ("queueId", "queueOffset", "physicalOffset", "storeSize", "sysFlag", "flag")
    columns = ("queue_id", "queue_offset", "physical_offset", "size", "sys_flag", "flag")
    return {
        **{column: item[name] for column, name in zip(columns, names, strict=True)},
        "topic": item["topic"],
        "born_time": item["bornTimestamp"],
        "born_host": item["bornHost"],
        "store_time": item["storeTimestamp"],
        "store_host": item["storeHost"],
        "reconsume_times": item["reconsumeTimes"],
        "prepared_offset": item["preparedTransactionOffset"],
        "body_crc": item["bodyCrc"],
        "body_len": item["bodySize"],
        "body": item["body"],
        "crc_ok": item["crcOk"],
        "tags": item["tags"],
        "keys": item["keys"],
        "uniq_key": item["uniqKey"],
        "properties": item["properties"],
        "offset_msg_id": item["offsetMsgId"],
        "store": store,
    }


def comparable(row: Any) -> dict[str, Any]:
    """Return a Spark row in the form of :func:`exported`."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    fields = row.asDict()
    for name in ("born_time", "store_time"):
        fields[name] = (fields[name].astimezone(UTC) - epoch) // timedelta(milliseconds=1)
    fields["body"] = base64.b64encode(fields["body"]).decode()
    fields["keys"] = (fields["keys"] or "").split()
    fields["properties"] = decode_properties(fields["properties"].encode())
    return fields


def test_rows_of_every_recorded_store_are_equal_to_those_of_store_export(
    spark: Any, mqadmin: Callable[..., Any], store_roots: dict[str, Path]
) -> None:
    """Compare every column of every message."""
    found: dict[str, list[Any]] = {str(root): [] for root in store_roots.values()}
    for row in read(spark, *store_roots.values(), splitBytes=50_000).collect():
        found[row.store].append(comparable(row))
    for name, root in store_roots.items():
        done = mqadmin("store", "export", str(root), "--body", "base64", "-o", "ndjson")
        lines = [exported(json.loads(line), str(root)) for line in done.out.splitlines()]
        assert lines, done.err
        # Messages of an inner batch share a record.
        place = itemgetter("physical_offset", "queue_offset")
        assert sorted(found[str(root)], key=place) == sorted(lines, key=place), name


def test_a_log_of_many_files_has_the_same_rows_with_any_splits_and_filters(
    spark: Any, make_log: MakeLog, rng: random.Random
) -> None:
    log = make_log(file_size=16_384)
    places = []
    for number in range(500):
        body = rng.randbytes(rng.choice((0, 1, 30, 200, 4000)))
        given = {"properties": {"KEYS": None}} if number % 3 else {}
        topic = f"Topic{rng.randrange(5)}"
        places.append(log.put(topic, queue_id=rng.randrange(4), body=body, **given))
    bad = sorted(rng.sample(places[:-1], 6))
    for place in bad:
        log.write(place + 4, b"torn")
    expected = decode_store(log.root)
    assert len(expected) == 494
    seen = set()
    for size in (1 << 30, rng.randrange(4000, 8000), rng.randrange(8000, 16_000)):
        frame = read(spark, log.root, splitBytes=size, rows=rng.randrange(1, 200), damages="true")
        rows = frame.collect()
        damaged = [row for row in rows if row.damage is not None]
        assert normalize(
            {**row.asDict(), "damage": None} for row in rows if row.damage is None
        ) == normalize({**row, "damage": None} for row in expected), size
        seen.add(tuple(sorted((row.physical_offset, row.size, row.damage) for row in damaged)))
    (damaged,) = seen  # the same with any splits
    assert {offset for offset, _, _ in damaged} <= set(bad)
    low, high = sorted(rng.sample(places, 2))
    middle = expected[len(expected) // 2]["store_time"]
    wanted = [
        row
        for row in expected
        if row["topic"] == "Topic2"
        and low <= row["physical_offset"] < high
        and row["store_time"] >= middle
    ]
    size = rng.randrange(6000, 16_000)
    by_option = read(
        *(spark, log.root),
        topic="Topic2",
        offset_from=low,
        offset_to=high,
        since=middle.isoformat(),
        splitBytes=size,
    )
    condition = (
        (F.col("topic") == "Topic2")
        & (F.col("physical_offset") >= low)
        & (F.col("physical_offset") < high)
        & (F.col("store_time") >= F.lit(middle))
    )
    pushed = read(spark, log.root, pushdown="true", splitBytes=size).where(condition)
    plain = read(spark, log.root, splitBytes=size).where(condition)
    for frame in (by_option, pushed, plain):
        assert normalize(frame.collect()) == normalize(wanted), size


def test_columns_have_the_declared_types(spark: Any, store_roots: dict[str, Path]) -> None:
    frame = read(spark, store_roots["normal-stop-533"])
    assert {field.name: field.dataType.simpleString() for field in frame.schema.fields} == {
        name: kind for name, kind in COLUMN_TYPES.items() if name != "damage"
    }


def test_random_splits_give_equal_rows(
    spark: Any, store_roots: dict[str, Path], rng: random.Random
) -> None:
    root = store_roots["normal-stop-498"]
    size = rng.randrange(9_000, 20_000)
    frame = read(spark, root, splitBytes=size, rows=rng.randrange(1, 50))
    assert normalize(frame.collect()) == normalize(decode_store(root)), size
    assert frame.rdd.getNumPartitions() > 4


def test_only_the_columns_asked_for_are_read(spark: Any, store_roots: dict[str, Path]) -> None:
    frame = read(spark, store_roots["retry-dlq-533"], columns="store_time, topic")
    assert frame.columns == ["store_time", "topic"]
    assert frame.where("topic = '%DLQ%CG_fail'").count() == 10
    own = spark.read.format(FORMAT).schema("topic string, size int")
    assert own.load(str(store_roots["retry-dlq-533"])).agg(F.sum("size")).first()[0] > 30_000


def test_filters_by_option(spark: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    rows = decode_store(root)
    middle = sorted(rows, key=lambda row: row["physical_offset"])[len(rows) // 2]
    time, place = middle["store_time"], middle["physical_offset"]
    ms = int(time.timestamp() * 1000)
    cases: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
        ({"topic": "OrdersA,BigA"}, lambda row: row["topic"] in ("OrdersA", "BigA")),
        ({"since": ms}, lambda row: row["store_time"] >= time),
        ({"until": time.isoformat()}, lambda row: row["store_time"] < time),
        ({"offset_from": place}, lambda row: row["physical_offset"] >= place),
        ({"offset_to": place}, lambda row: row["physical_offset"] < place),
        ({"topic": "none"}, lambda row: False),
    ]
    frames = []
    for number, (options, _) in enumerate(cases):
        frame = read(spark, root, **options)
        frames.append(frame.withColumn("case", F.lit(number)))
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionAll(frame)
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(cases))}
    for row in union.collect():
        fields = row.asDict()
        found[fields.pop("case")].append(fields)
    for number, (options, expected) in enumerate(cases):
        wanted = normalize(row for row in rows if expected(row))
        assert normalize(found[number]) == wanted, options


def test_filters_that_spark_pushes_down(spark: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["normal-stop-533"]
    rows = decode_store(root)
    time = sorted(row["store_time"] for row in rows)[len(rows) // 2]
    frame = read(spark, root, pushdown="true")
    for condition, expected in (
        (F.col("topic") == "OrdersA", lambda row: row["topic"] == "OrdersA"),
        (
            F.col("topic").isin("OrdersA", "ZipA") & (F.col("store_time") <= F.lit(time)),
            lambda row: row["topic"] in ("OrdersA", "ZipA") and row["store_time"] <= time,
        ),
        (
            (F.col("physical_offset") > 5000) & (F.col("physical_offset") <= 20_000),
            lambda row: 5000 < row["physical_offset"] <= 20_000,
        ),
    ):
        plan = frame.where(condition)
        assert normalize(plan.collect()) == normalize(row for row in rows if expected(row))


def test_damaged_regions_are_rows_and_all_messages_around_them_are_returned(
    spark: Any, make_log: MakeLog
) -> None:
    log = make_log(file_size=8192)
    places = [log.put() for _ in range(20)]
    log.write(places[4], bytes(30))
    log.write(places[9] + 90, b"\xff\xff")
    frame = read(spark, log.root, damages="true", splitBytes=1000)
    rows = frame.collect()
    messages = [row.physical_offset for row in rows if row.damage is None]
    assert messages == [place for place in places if place != places[4]]
    damaged = [row for row in rows if row.damage is not None]
    assert [(row.physical_offset, row.damage.split(":")[0]) for row in damaged] == [
        (places[4], "hole"),
        (places[9], "crc"),
    ]
    assert damaged[0].size == places[5] - places[4]
    assert next(row.crc_ok for row in rows if row.physical_offset == places[9]) is False
    without = read(spark, log.root, damages="true", crc="false", columns="damage")
    assert without.where("damage IS NOT NULL").count() == 1


def test_a_file_a_directory_and_a_glob_can_be_read(spark: Any, make_log: MakeLog) -> None:
    logs = [make_log(f"store{number}", file_size=4096) for number in range(2)]
    for log in logs:
        for _ in range(30):
            log.put()
    both = read(spark, logs[0].root.parent / "store*", columns="store")
    assert {row.store for row in both.distinct().collect()} == {str(log.root) for log in logs}
    folder = read(spark, logs[0].root / "commitlog", columns="store,physical_offset")
    file = read(spark, logs[0].file(4096), columns="store,physical_offset")
    found = folder.unionAll(file).groupBy("physical_offset").count().collect()
    assert {row.physical_offset for row in found if row["count"] == 2} == {
        row.physical_offset for row in found if 4096 <= row.physical_offset < 8192
    }
    assert len(found) == 30


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("/nowhere/at/all", {}, "no such file or directory: /nowhere/at/all"),
        ("/nowhere/*/store", {}, "no file matches /nowhere"),
        ("", {"columns": "topics"}, "no column 'topics'"),
        ("", {"since": "yesterday-ish"}, "option since"),
        ("", {"offset.from": "x"}, "option offset.from"),
    ],
)
def test_invalid_options_are_reported(
    spark: Any, store_roots: dict[str, Path], path: str, options: dict[str, str], words: str
) -> None:
    reader = spark.read.format(FORMAT).options(**options)
    with pytest.raises(PySparkException, match=words):
        reader.load(path or str(store_roots["retry-dlq-533"])).count()


def test_no_path_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no path"):
        option_paths({}, FORMAT)


def test_sql_can_use_the_source(spark: Any, store_roots: dict[str, Path]) -> None:
    root = store_roots["retry-dlq-533"]
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW dead USING `{FORMAT}` "
        f"OPTIONS (path '{root}', columns 'topic,reconsume_times')"
    )
    found = spark.sql(
        "SELECT count(*), max(reconsume_times) FROM dead WHERE topic LIKE '!%DLQ!%%' ESCAPE '!'"
    )
    assert tuple(found.first()) == (14, 3)
