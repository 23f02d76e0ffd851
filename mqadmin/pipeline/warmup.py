"""Making the class-data archive, and measuring what it brings."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.errors import StoreError
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import encode_record
from broker.store.format.commitlog import file_name
from mqadmin.pipeline.archive import DUMP_LIMIT_S, Archive, archive_path, dump_flags
from mqadmin.pipeline.java import find_java
from mqadmin.pipeline.progress import Notify, Progress, silent
from mqadmin.pipeline.session import SparkSettings, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES: Final = 100


def warm_up(notify: Notify = silent) -> Archive:
    """Write the archive for the Java and Spark that are installed, over an older one.

    Three starts: as it is, one that writes the archive at its end, one that uses it.
    """
    home = find_java()
    path = archive_path(home)
    path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="mqadmin-warmup-") as scratch:
        store = small_store(Path(scratch) / "store")
        notify(Progress(what="a start without the archive", done=0, total=3))
        before = _timed(SparkSettings(master="local[2]", archive=False), store, scratch)
        notify(Progress(what="writing the archive", done=1, total=3))
        flags = dump_flags(home, path)
        settings = SparkSettings(
            master="local[2]", archive=False, flags=flags, stop_limit_s=DUMP_LIMIT_S
        )
        _timed(settings, store, scratch)
        if not path.exists():
            raise StoreError(f"no archive was written: {path}", "-v shows why", path=str(path))
        notify(Progress(what="a start with it", done=2, total=3))
        after = _timed(SparkSettings(master="local[2]"), store, scratch)
    return Archive(
        path=str(path),
        bytes=path.stat().st_size,
        java=str(home.java),
        java_origin=home.origin,
        start_seconds_before=round(before, 2),
        start_seconds_after=round(after, 2),
    )


def _timed(settings: SparkSettings, store: Path, scratch: str) -> float:
    """Seconds from nothing to the end of a first job."""
    began = time.monotonic()
    with spark_session(settings) as spark:
        exercise(spark, store, Path(scratch) / "out")
        return time.monotonic() - began


def exercise(spark: "SparkSession", store: Path, out: Path) -> None:
    """Use what jobs use, so that its classes are loaded."""
    from pyspark.sql import functions as F

    messages = spark.read.format("rocketmq-store").load(str(store))
    counted = messages.groupBy("topic").agg(
        F.count("*"), F.sum("size"), F.percentile_approx("size", 0.5), F.max("store_time")
    )
    counted.orderBy("topic").collect()
    counted.write.mode("overwrite").parquet(str(out))
    spark.read.parquet(str(out)).count()


def small_store(root: Path) -> Path:
    """A store of a few messages."""
    log = root / "commitlog"
    log.mkdir(parents=True)
    data = bytearray()
    for number in range(MESSAGES):
        properties = encode_properties({"KEYS": f"k{number}", "TAGS": "t"})
        message = MessageExt(
            f"topic{number % 3}",
            b"%d" % number,
            properties,
            queue_offset=number,
            physical_offset=len(data),
            store_timestamp=1_700_000_000_000 + number,
            born_timestamp=1_700_000_000_000 + number,
            born_host_raw=bytes((127, 0, 0, 1, 0, 0, 0, 1)),
            store_host_raw=bytes((127, 0, 0, 1, 0, 0, 0, 1)),
        )
        data += encode_record(message)
    (log / file_name(0)).write_bytes(bytes(data).ljust(1 << 16, b"\0"))
    return root
