"""The streaming reader returns each message once, over restarts, rolls, cleaning, torn ends."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes
from pyspark.sql.types import StructType

from broker.errors import StoreError
from mqadmin.pipeline.sources.stream import StoreStreamReader
from tests.support.pipeline_store import MakeLiveStore, MakeLog

SCHEMA = StructType().add("physical_offset", "long").add("store", "string")


def reader(*paths: Path, **options: Any) -> StoreStreamReader:
    given = {name: str(value) for name, value in options.items()}
    names = ",".join(f'"{path}"' for path in paths)
    return StoreStreamReader(SCHEMA, {**given, "paths": f"[{names}]"})


def rows(stream: StoreStreamReader, start: dict[str, int], end: dict[str, int]) -> Iterator[int]:
    for split in stream.partitions(start, end):
        for batch in stream.read(split):
            yield from batch.column("physical_offset").to_pylist()


def follow(
    stream: StoreStreamReader, offset: dict[str, int], limit: ReadLimit | None = None
) -> tuple[list[int], dict[str, int], int]:
    """Run batches as Spark does until there is no new data; return rows, offset, batches."""
    found: list[int] = []
    batches = 0
    limit = limit or stream.getDefaultReadLimit()
    while True:
        end = stream.latestOffset(offset, limit)
        if end == offset:
            return found, offset, batches
        batch = list(rows(stream, offset, end))
        # Spark repeats a batch after a crash: it must have the same rows.
        assert list(rows(stream, offset, end)) == batch
        found += batch
        offset = end
        batches += 1


@pytest.mark.parametrize("round_number", range(10))
def test_each_message_is_returned_once_with_any_limit(
    make_log: MakeLog, rng: random.Random, round_number: int
) -> None:
    log = make_log(file_size=4096, start=8192 * rng.randrange(3))
    places = [log.put() for _ in range(rng.randrange(1, 60))]
    stream = reader(log.root, maxBytesPerTrigger=rng.randrange(1, 6000), splitBytes=700)
    offset = stream.initialOffset()
    found: list[int] = []
    for _ in range(4):
        seen, offset, _ = follow(stream, offset)
        found += seen
        assert found == places
        places += [log.put() for _ in range(rng.randrange(0, 30))]
        if rng.random() < 0.5:  # the process is restarted
            stream = reader(log.root, maxBytesPerTrigger=rng.randrange(1, 6000), splitBytes=900)


def test_a_batch_is_bounded(make_log: MakeLog) -> None:
    log = make_log(file_size=1 << 16)
    for _ in range(100):
        log.put()
    stream = reader(log.root)
    start = stream.initialOffset()
    (end,) = stream.latestOffset(start, ReadMaxBytes(5000)).values()
    assert 5000 <= end < 5500
    everything = stream.latestOffset(start, ReadAllAvailable())
    assert set(everything.values()) == {log.end}
    assert set(stream.reportLatestOffset().values()) == {log.end}


def test_stores_share_the_limit(make_log: MakeLog) -> None:
    busy, quiet = make_log("busy", file_size=1 << 16), make_log("quiet", file_size=1 << 16)
    for _ in range(100):
        busy.put()
    quiet.put()
    stream = reader(busy.root, quiet.root)
    end = stream.latestOffset(stream.initialOffset(), ReadMaxBytes(4000))
    assert end[str(quiet.root)] == quiet.end
    assert 2000 <= end[str(busy.root)] < 4500
    found, _, _ = follow(stream, stream.initialOffset(), ReadMaxBytes(4000))
    assert len(found) == 101


def test_available_now_ends_at_the_ends_of_the_logs_at_its_start(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(30)]
    stream = reader(log.root, maxBytesPerTrigger=1500)
    stream.prepareForTriggerAvailableNow()
    later = [log.put() for _ in range(30)]
    found, offset, batches = follow(stream, stream.initialOffset())
    assert found == places
    assert batches > 2
    again = reader(log.root, maxBytesPerTrigger=1500)
    again.prepareForTriggerAvailableNow()
    assert follow(again, offset)[0] == later


def test_starting_offsets_latest_skips_existing_messages(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    for _ in range(30):
        log.put()
    stream = reader(log.root, startingOffsets="latest")
    offset = stream.initialOffset()
    new = log.put()
    assert follow(stream, offset)[0] == [new]


def test_a_torn_record_at_the_end_is_returned_when_complete(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    first = log.put()
    end = log.end
    second = log.put()
    record = log.file(0).read_bytes()[end : log.end]
    for torn in range(0, len(record) - 1, 7):
        log.write(end, record[:torn].ljust(len(record), b"\0"))
        stream = reader(log.root)
        found, offset, _ = follow(stream, stream.initialOffset())
        assert found == [first]
        log.write(end, record)
        assert follow(stream, offset)[0] == [second], torn


def test_a_torn_record_at_the_end_of_a_file_is_skipped_once_the_next_file_begins(
    make_log: MakeLog,
) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(40)]
    last = max(place for place in places if place < 4096)
    log.write(last, b"\x00\x00\x10\x00torn")
    log.write(last + 8, bytes(4096 - last - 8))
    stream = reader(log.root, maxBytesPerTrigger=700)
    assert follow(stream, stream.initialOffset())[0] == [p for p in places if p != last]


def test_damaged_regions_are_skipped(make_log: MakeLog, rng: random.Random) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(40)]
    bad = set(rng.sample(places[:-1], 5))
    for place in bad:
        log.write(place + 4, b"\0\0\0\0")
    stream = reader(log.root, maxBytesPerTrigger=rng.randrange(100, 3000))
    assert follow(stream, stream.initialOffset())[0] == [p for p in places if p not in bad]


def test_files_may_be_removed_after_they_were_read(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(20)]
    stream = reader(log.root)
    found, offset, _ = follow(stream, stream.initialOffset())
    places += [log.put() for _ in range(30)]
    log.file(0).unlink()
    again = reader(log.root)
    found += follow(again, offset)[0]
    assert found == places


def test_files_removed_unread_end_the_stream_unless_data_loss_is_allowed(
    make_log: MakeLog,
) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(50)]
    stream = reader(log.root, maxBytesPerTrigger=1000)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxBytes(1000))
    log.file(0).unlink()
    with pytest.raises(StoreError, match="were removed before they were read"):
        reader(log.root).latestOffset(end, ReadMaxBytes(1000))
    with pytest.raises(StoreError) as raised:
        reader(log.root).partitions(start, end)
    assert "failOnDataLoss" in raised.value.hint
    lax = reader(log.root, failOnDataLoss="false")
    assert follow(lax, end)[0] == [place for place in places if place >= 4096]


def test_a_file_removed_after_planning_is_reported_or_skipped(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    places = [log.put() for _ in range(50)]
    for allowed in (False, True):
        stream = reader(log.root, failOnDataLoss=str(not allowed).lower())
        end = stream.latestOffset(start := stream.initialOffset(), ReadAllAvailable())
        planned = stream.partitions(start, end)
        gone = log.file(4096 * allowed)
        gone.rename(gone.with_suffix(".gone"))
        if allowed:
            found = [
                place
                for split in planned
                for batch in stream.read(split)
                for place in batch.column("physical_offset").to_pylist()
            ]
            assert found == [place for place in places if place >= 8192]
        else:
            with pytest.raises(StoreError, match="offsets 0 to 4096 were removed"):
                list(stream.read(planned[0]))
    # A missing directory is not a removed old file.
    (log.root / "commitlog").rename(log.root / "elsewhere")
    with pytest.raises(StoreError, match="cannot read"):
        list(stream.read(planned[1]))


@pytest.mark.parametrize("first", [0, 8192])
def test_the_log_of_an_empty_store_may_begin_at_any_offset(make_log: MakeLog, first: int) -> None:
    """The first file of the log of a new slave is the current one of its master."""
    log = make_log(file_size=4096, start=first)
    stream = reader(log.root)
    for options in ({}, {"startingOffsets": "latest"}):
        assert reader(log.root, **options).initialOffset() == {}
    offset = stream.initialOffset()
    assert follow(stream, offset) == ([], {}, 0)
    stream.prepareForTriggerAvailableNow()
    assert follow(stream, offset) == ([], {}, 0)
    place = log.put()
    assert follow(reader(log.root), offset)[0] == [place]


def test_a_stream_follows_the_store_engine(live_store: MakeLiveStore, tmp_path: Path) -> None:
    """The engine writes between the batches, and its files roll."""
    store = live_store(tmp_path / "live", file_size=16_384)
    stream = reader(tmp_path / "live", maxBytesPerTrigger=9_000)
    offset = stream.initialOffset()
    found: list[int] = []
    written: list[int] = []
    for number in range(60):
        written += store.put(7, size=100 + number * 13)
        seen, offset, _ = follow(stream, offset)
        found += seen
        assert found == written
    assert len(list((tmp_path / "live" / "commitlog").iterdir())) > 5


def run_available(spark: Any, root: Path, folder: Path, **options: Any) -> Any:
    """Run an AvailableNow query into Parquet to its end; return the query."""
    source = spark.readStream.format("rocketmq-store").options(
        **{name: str(value) for name, value in options.items()}
    )
    query = (
        source.load(str(root))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(120)
    return query


def test_spark_returns_each_message_once_over_restarts(
    spark: Any, live_store: MakeLiveStore, tmp_path: Path
) -> None:
    live = live_store(tmp_path / "live", file_size=16_384)
    written = live.put(60)
    options = {"columns": "physical_offset,body", "maxBytesPerTrigger": 6000, "splitBytes": 2500}
    query = run_available(spark, live.root, tmp_path, **options)
    assert query.lastProgress.sources[0].endOffset
    assert len(query.recentProgress) > 1
    written += live.put(60)
    # As after a crash between writing a batch and committing it.
    commits = tmp_path / "checkpoint" / "commits"
    last = max(
        (path for path in commits.iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    run_available(spark, live.root, tmp_path, **options)
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.physical_offset for row in rows) == written
    bodies = {row.physical_offset: bytes(row.body)[:10] for row in rows}
    assert [int(bodies[place]) for place in written] == list(range(120))


def test_spark_follows_a_growing_store(
    spark: Any, live_store: MakeLiveStore, tmp_path: Path
) -> None:
    live = live_store(tmp_path / "live", file_size=1 << 18)
    written = live.put(50)
    query = (
        spark.readStream.format("rocketmq-store")
        .option("columns", "physical_offset")
        .option("maxBytesPerTrigger", 100_000)
        .load(str(live.root))
        .writeStream.format("memory")
        .queryName("live_rows")
        .start()
    )
    try:
        for size in range(100, 2000, 100):
            written += live.put(40, size=size)
        query.processAllAvailable()
        # Messages may have been written after the last batch determined its end.
        while spark.table("live_rows").count() < len(written):
            query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.table("live_rows").collect()
    assert sorted(row.physical_offset for row in rows) == written


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Any]:
    """Start a broker with its name server on real sockets, with files of 64 KiB."""
    from broker.server.standalone import BlockingEmbeddedBroker

    small = {
        "mappedFileSizeCommitLog": "65536",
        "maxMessageSize": "16384",
        "maxHashSlotNum": "500",
        "maxIndexNum": "2000",
        "fileReservedTime": "0",  # hours
        "cleanResourceInterval": "86400000",  # files are removed on request only
    }
    with BlockingEmbeddedBroker(str(tmp_path / "store"), small) as running:
        yield running


def test_spark_follows_a_broker_over_restarts_rolls_and_cleaning(
    spark: Any, embedded: Any, tmp_path: Path
) -> None:
    """Each message acknowledged to a producer is returned once, while old files are removed."""
    from broker.message.message import Message
    from broker.remoting.blocking import BlockingClient
    from broker.remoting.protocol.codes import RequestCode
    from broker.remoting.rpc.caller import Caller
    from mqadmin.admin.message.message_sender import MessageSender

    log = tmp_path / "store" / "commitlog"
    caller = Caller([embedded.namesrv_address], BlockingClient(timeout_ms=30_000))
    sent: dict[str, bytes] = {}
    sending = threading.Event()

    def send(count: int) -> None:
        producer = MessageSender(caller, create=True)
        for number in range(count):
            body = b"%d " % number + b"." * (number % 900)
            sent[producer.send(Message("Live", body)).offset_msg_id] = body
            if number == 20:
                sending.set()

    def send_during(run: Callable[[], Any]) -> None:
        """Run a query while messages are sent."""
        sending.clear()
        thread = threading.Thread(target=send, args=(250,))
        thread.start()
        assert sending.wait(60)
        run()
        thread.join()

    options = {"columns": "offset_msg_id,body,topic", "maxBytesPerTrigger": 40_000}
    out = tmp_path / "stream"
    root = tmp_path / "store"
    try:
        send_during(lambda: run_available(spark, root, out, **options))
        run_available(spark, root, out, **options)
        before = {path.name for path in log.iterdir()}
        deadline = time.monotonic() + 60
        while before <= {path.name for path in log.iterdir()}:  # unflushed files are kept
            assert time.monotonic() < deadline
            caller.call(embedded.address, RequestCode.DELETE_EXPIRED_COMMITLOG)
        send_during(lambda: run_available(spark, root, out, **options))
        run_available(spark, root, out, **options)
    finally:
        caller.close()
    rows = spark.read.parquet(str(out / "out")).where("topic = 'Live'").collect()
    assert len(rows) == 500
    assert {row.offset_msg_id: bytes(row.body) for row in rows} == sent
