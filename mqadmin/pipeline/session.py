"""A Spark session for a local run: quiet, on loopback, with our own launch of the machine.

Against ``spark://…`` the same settings are used; the workers then need this package installed or
shipped (``ship``).
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mqadmin.pipeline.java import Gateway, find_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_HEAP: Final = "2g"


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: ``master`` (``local[*]``, ``spark://host:port``), ``conf`` of Spark, ``heap``.

    ``archive`` is a class-data archive for a quicker start, "" for none; ``verbose`` lets Spark
    talk on stderr.
    """

    master: str = "local[*]"
    conf: dict[str, str] = {}
    heap: str = DEFAULT_HEAP
    archive: str = ""
    verbose: bool = False


def settings_of(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """The Spark settings of a run by name; ``conf`` of the user wins."""
    cores = str(2 * (os.cpu_count() or 1))
    return {
        "spark.master": settings.master,
        "spark.app.name": "mqadmin pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.files.maxRecordsPerFile": "5000000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **settings.conf,
    }


@contextmanager
def spark_session(settings: SparkSettings | None = None) -> Iterator["SparkSession"]:
    """A session with our sources registered; it and its machine end with the block.

    ClientError without PySpark, without a Java, or when the machine does not start.
    """
    settings = settings or SparkSettings()
    spark_home()  # says what to install before a Java is looked for
    # Workers run python3 of the PATH otherwise, which need not be the one with our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory(prefix="mqadmin-spark-") as scratch:
        flags = (
            ("-Xlog:disable", f"-XX:SharedArchiveFile={settings.archive}")
            if settings.archive
            else ()
        )
        gateway = Gateway(
            find_java(),
            settings_of(settings, Path(scratch)),
            heap=settings.heap,
            flags=flags,
            verbose=settings.verbose,
        )
        try:
            # The machine starts while these are imported.
            from pyspark.sql import SparkSession

            from mqadmin.pipeline.source import register

            gateway.connect()
            session = SparkSession.builder.getOrCreate()
            register(session)
            try:
                yield session
            finally:
                session.stop()
        finally:
            gateway.close()
            forget_session()


def forget_session() -> None:
    """Let a later session of this process start a machine of its own."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None


def ship(session: "SparkSession") -> None:
    """Send this package to the workers of a cluster that do not have it installed."""
    import zipfile

    root = Path(__file__).parent.parent.parent
    with tempfile.TemporaryDirectory(prefix="mqadmin-ship-") as folder:
        archive = Path(folder) / "mqadmin.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for package in ("broker", "mqadmin"):
                for path in sorted((root / package).rglob("*.py")):
                    zipped.write(path, path.relative_to(root))
        session.sparkContext.addPyFile(str(archive))
