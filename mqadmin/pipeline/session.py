"""A Spark session for a local run: quiet, on loopback, with our own launch of the machine.

Against ``spark://…`` the same settings are used; the workers then need this package installed or
shipped (``ship``).
"""

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from broker.errors import ConfigError, ConnectError, RemotingError
from mqadmin.pipeline.archive import start_flags
from mqadmin.pipeline.failure import cause_of, is_spark
from mqadmin.pipeline.java import STOP_LIMIT_S, Gateway, find_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_HEAP: Final = "2g"
MASTER_LIMIT_S: Final = 5.0
DYING_S: Final = 1.0  # from the end of a connection to the end of the process that held it


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

    ConfigError without PySpark or a Java, RemotingError when the machine does not start or the
    master of a cluster does not answer.
    """
    settings = settings or SparkSettings()
    spark_home()  # says what to install before a Java is looked for
    find_master(settings.master)
    # Workers run python3 of the PATH otherwise, which need not be the one with our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    home = find_java()
    # What py4j logs when a machine dies would go to stderr by a root logger without handlers.
    quiet = logging.NullHandler()
    if not settings.verbose:
        logging.getLogger().addHandler(quiet)
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
            from mqadmin.pipeline import source  # noqa: F401

            gateway.connect()
            try:
                session = _begun(settings, Path(scratch))
                try:
                    yield session
                finally:
                    if gateway.ended() is None:
                        session.stop()
            except Exception as error:
                cause = _told(error, gateway)
                if cause is error:
                    raise
                raise cause from None
        finally:
            gateway.close(settings.stop_limit_s)
            forget_session()
            logging.getLogger().removeHandler(quiet)


def _begun(settings: SparkSettings, scratch: Path) -> "SparkSession":
    """The session of a machine that listens."""
    from pyspark.sql import SparkSession

    from mqadmin.pipeline.source import register

    session: SparkSession = SparkSession.builder.getOrCreate()
    if not settings.verbose:
        # It prints a traceback when the machine dies, which is told in words.
        server: Any = session.sparkContext._accumulatorServer
        server.handle_error = _silent
    if settings.ship:
        ship(session, scratch)
    register(session)
    return session


def _silent(*_: object) -> None:
    """Say nothing."""


def _told(error: Exception, gateway: Gateway) -> BaseException:
    """An error in words, while the machine lives that alone can tell them; or that it has died."""
    if not isinstance(error, RemotingError | OSError | EOFError) and not is_spark(error):
        return error
    status = gateway.ended(DYING_S)
    if status is None:
        return cause_of(error)
    if status < 0:
        how = f"was killed by signal {-status}"
    else:
        how = f"ended with status {status}: {gateway.last_words()}"
    return RemotingError(
        f"the Java virtual machine of Spark {how}",
        "--memory gives it more; the kernel's log tells whether memory ran out",
    )


def find_master(master: str) -> None:
    """ConnectError if none of the masters of ``spark://host:port,host:port`` can be reached.

    Spark itself would try for a minute and then say that a context was stopped. ConfigError for
    what is no master.
    """
    if not master.startswith("spark://"):
        if not master.startswith(("local", "yarn", "k8s://")):
            raise ConfigError(f"no Spark master: {master!r}", "local[N] or spark://HOST:PORT")
        return
    import socket

    reason = ""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"no Spark master: {master!r}", "local[N] or spark://HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_LIMIT_S).close()
            return
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise ConnectError(
        f"no Spark master answers at {master}: {reason}",
        "--master spark://HOST:PORT is the URL that the master's log and web page show",
        address=master,
    )


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
    session.sparkContext.addPyFile(str(package_zip(scratch / "mqadmin.zip")))


def package_zip(path: str | Path) -> Path:
    """Write this package as a zip for ``spark-submit --py-files`` and ``addPyFile``; its path.

    Nothing else of ours need be installed on the nodes. Where the driver has nothing either, a
    program calls ``mqadmin.pipeline.source.register``, or is started with the zip in PYTHONPATH:
    Spark looks for sources before it hands ``--py-files`` out.
    """
    import zipfile

    root = Path(__file__).parent.parent.parent
    target = Path(path)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in ("broker", "mqadmin"):
            for source in sorted((root / package).rglob("*.py")):
                zipped.write(source, source.relative_to(root))
        for source in sorted((Path(__file__).parent / "registration").glob("pyspark_*.py")):
            zipped.write(source, source.name)
    return target
