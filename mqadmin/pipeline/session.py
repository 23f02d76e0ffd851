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

from mqadmin.pipeline.archive import start_flags
from mqadmin.pipeline.java import STOP_LIMIT_S, Gateway, find_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_HEAP: Final = "2g"


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: ``master`` (``local[*]``, ``spark://host:port``), ``conf`` of Spark, ``heap``.

    ``archive``: use the class-data archive if ``warmup`` has made one. ``flags`` are more options
    of the virtual machine, ``stop_limit_s`` how long it may take to end. ``verbose`` lets Spark
    talk on stderr. ``ship``: send this package to the workers of a cluster.
    """

    master: str = "local[*]"
    conf: dict[str, str] = {}
    heap: str = DEFAULT_HEAP
    archive: bool = True
    flags: tuple[str, ...] = ()
    stop_limit_s: float = STOP_LIMIT_S
    verbose: bool = False
    ship: bool = False

    @property
    def is_local(self) -> bool:
        """Whether everything runs in one virtual machine here."""
        return self.master.startswith("local")


def settings_of(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """The Spark settings of a run by name; ``conf`` of the user wins."""
    cores = str(2 * (os.cpu_count() or 1))
    host = driver_host(settings.master)
    return {
        "spark.master": settings.master,
        "spark.app.name": "mqadmin pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.files.maxRecordsPerFile": "5000000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Else every failed query is told on stderr once more, as JSON.
        "spark.python.sql.dataFrameDebugging.enabled": "true" if settings.verbose else "false",
        **settings.conf,
    }


def driver_host(master: str) -> str:
    """The address under which workers find this process: loopback unless they are elsewhere."""
    if not master.startswith("spark://"):
        return "127.0.0.1"
    import socket

    host, _, port = master.removeprefix("spark://").split(",")[0].rpartition(":")
    try:
        # The way to the master tells the own address; a datagram socket sends nothing.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"


@contextmanager
def spark_session(settings: SparkSettings | None = None) -> Iterator["SparkSession"]:
    """A session with our sources registered; it and its machine end with the block.

    ConfigError without PySpark or a Java, RemotingError when the machine does not start.
    """
    settings = settings or SparkSettings()
    spark_home()  # says what to install before a Java is looked for
    # Workers run python3 of the PATH otherwise, which need not be the one with our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    home = find_java()
    with tempfile.TemporaryDirectory(prefix="mqadmin-spark-") as scratch:
        gateway = Gateway(
            home,
            settings_of(settings, Path(scratch)),
            heap=settings.heap,
            flags=(*(start_flags(home) if settings.archive else ()), *settings.flags),
            verbose=settings.verbose,
        )
        try:
            # The machine starts while these are imported.
            from pyspark.sql import SparkSession

            from mqadmin.pipeline.source import register

            gateway.connect()
            session = SparkSession.builder.getOrCreate()
            if settings.ship:
                ship(session, Path(scratch))
            register(session)
            try:
                yield session
            finally:
                session.stop()
        finally:
            gateway.close(settings.stop_limit_s)
            forget_session()


def forget_session() -> None:
    """Let a later session of this process start a machine of its own."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None


def ship(session: "SparkSession", scratch: Path) -> None:
    """Send this package to the workers of a cluster that do not have it installed.

    What it needs (pyarrow, numpy, numba, msgspec) must be in the Python of the workers.
    """
    import zipfile

    root = Path(__file__).parent.parent.parent
    archive = scratch / "mqadmin.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in ("broker", "mqadmin"):
            for path in sorted((root / package).rglob("*.py")):
                zipped.write(path, path.relative_to(root))
    session.sparkContext.addPyFile(str(archive))
