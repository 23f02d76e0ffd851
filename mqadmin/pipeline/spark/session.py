"""Spark sessions: a JVM on loopback for local runs, or a driver of a ``spark://`` cluster.

The workers of a cluster need this package: installed, or sent by the session (``ship``).
"""

import logging
import os
import socket
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark import SparkContext
from pyspark.sql import SparkSession

from broker.errors import ConfigError, ConnectError, RemotingError
from mqadmin.pipeline.failure import cause_of, is_spark_error
from mqadmin.pipeline.spark.archive import start_flags
from mqadmin.pipeline.spark.java import STOP_LIMIT_S, Gateway, find_java, spark_home

DEFAULT_HEAP: Final = "2g"
MASTER_LIMIT_S: Final = 5.0
EXIT_WAIT_S: Final = 1.0  # between the loss of the connection and the exit of the JVM


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a session: ``master`` (``local[*]``, ``spark://host:port``), Spark ``conf``.

    ``heap`` is the maximum heap of the driver JVM, ``flags`` are further JVM options and
    ``stop_limit_s`` bounds its shutdown. ``archive``: use the class-data archive if ``warmup`` has
    created one. ``verbose``: let Spark log to stderr. ``ship``: send this package to the workers
    of a cluster.
    """

    master: str = "local[*]"
    conf: dict[str, str] = {}
    heap: str = DEFAULT_HEAP
    archive: bool = True
    flags: tuple[str, ...] = ()
    stop_limit_s: float = STOP_LIMIT_S
    verbose: bool = False
    ship: bool = False


def spark_conf(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Return the Spark properties of a session; ``settings.conf`` overrides the defaults."""
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
        # Otherwise Spark prints every failed query on stderr as JSON.
        "spark.python.sql.dataFrameDebugging.enabled": "true" if settings.verbose else "false",
        **settings.conf,
    }


def driver_host(master: str) -> str:
    """Return the address at which workers reach this process, loopback for a local master."""
    if not master.startswith("spark://"):
        return "127.0.0.1"
    host, _, port = master.removeprefix("spark://").split(",")[0].rpartition(":")
    try:
        # Connecting a datagram socket sends nothing, but selects the local address of the route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"


@contextmanager
def spark_session(settings: SparkSettings | None = None) -> Iterator[SparkSession]:
    """Open a session with the data sources registered; close it and its JVM with the block.

    ConfigError without PySpark or Java, ConnectError if no master of a cluster can be reached,
    RemotingError if the JVM does not start or dies.
    """
    settings = settings or SparkSettings()
    spark_home()  # a missing extra is reported before a missing Java
    check_master(settings.master)
    # Otherwise workers run python3 from the PATH, which may lack the required packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    home = find_java()
    # Without a handler of the root logger, messages of py4j about a dead JVM go to stderr.
    null_handler = logging.NullHandler()
    if not settings.verbose:
        logging.getLogger().addHandler(null_handler)
    with tempfile.TemporaryDirectory(prefix="mqadmin-spark-") as scratch:
        gateway = Gateway(
            home,
            spark_conf(settings, Path(scratch)),
            heap=settings.heap,
            flags=(*(start_flags(home) if settings.archive else ()), *settings.flags),
            verbose=settings.verbose,
        )
        try:
            # The JVM starts while numpy, Arrow and the scanner are imported.
            from mqadmin.pipeline.sources.register import register

            gateway.connect()
            try:
                session = _open_session(settings, Path(scratch))
                register(session)
                try:
                    yield session
                finally:
                    if gateway.exit_status() is None:
                        with warnings.catch_warnings():
                            # A JVM killed a moment ago still counts as running: PySpark warns on
                            # stderr that it cannot stop it, and _explain reports its end.
                            warnings.simplefilter("ignore", RuntimeWarning)
                            session.stop()
            except Exception as error:
                cause = _explain(error, gateway)
                if cause is error:
                    raise
                raise cause from None
        finally:
            gateway.close(settings.stop_limit_s)
            reset_gateway()
            logging.getLogger().removeHandler(null_handler)


def _open_session(settings: SparkSettings, scratch: Path) -> SparkSession:
    """Open the session of a JVM whose gateway is connected."""
    session: SparkSession = SparkSession.builder.getOrCreate()
    if not settings.verbose:
        # By default it prints a traceback when the JVM dies; _explain reports that.
        server: Any = session.sparkContext._accumulatorServer
        server.handle_error = lambda *_: None
    if settings.ship:
        ship_package(session, scratch)
    return session


def _explain(error: Exception, gateway: Gateway) -> BaseException:
    """Return the cause of a Spark error, or that the JVM has died.

    To be called while the JVM runs: the texts of Java exceptions are requested from it.
    """
    if not isinstance(error, RemotingError | OSError | EOFError) and not is_spark_error(error):
        return error
    status = gateway.exit_status(EXIT_WAIT_S)
    if status is None:
        return cause_of(error)
    if status < 0:
        how = f"was killed by signal {-status}"
    else:
        how = f"ended with status {status}: {gateway.output_tail()}"
    return RemotingError(
        f"the Java virtual machine of Spark {how}",
        "if memory ran out (see the kernel log), change --memory",
    )


def check_master(master: str) -> None:
    """Check that one of the masters of ``spark://host:port,host:port`` accepts connections.

    ConnectError if none does: Spark itself would try for a minute and then report only a stopped
    context. ConfigError for an invalid master URL.
    """
    invalid = ConfigError(f"not a Spark master: {master!r}", "local[N] or spark://HOST:PORT")
    if not master.startswith("spark://"):
        if not master.startswith(("local", "yarn", "k8s://")) or master == "local[0]":
            raise invalid
        return
    reason = ""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise invalid
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_LIMIT_S).close()
            return
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
    raise ConnectError(
        f"cannot connect to the Spark master {master}: {reason}",
        "--master takes the URL shown in the log and on the web page of the master",
        address=master,
    )


def reset_gateway() -> None:
    """Disconnect PySpark from the JVM: a later session of this process starts another one."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None


def ship_package(session: SparkSession, scratch: Path) -> None:
    """Send this package to the workers of a cluster.

    Its dependencies (pyarrow, numpy, numba, msgspec) must be installed on the workers.
    """
    session.sparkContext.addPyFile(str(package_zip(scratch / "mqadmin.zip")))


def package_zip(path: str | Path) -> Path:
    """Write this package as a zip for ``spark-submit --py-files`` and ``addPyFile``.

    The nodes need no other part of this project. If the driver does not have the package installed
    either, start the program with the zip in PYTHONPATH (Spark discovers sources before it
    distributes ``--py-files``), or call ``mqadmin.pipeline.sources.register.register``.
    """
    pipeline = Path(__file__).parent.parent
    root = pipeline.parent.parent
    target = Path(path)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in ("broker", "mqadmin"):
            for source in sorted((root / package).rglob("*.py")):
                zipped.write(source, source.relative_to(root))
        for source in sorted((pipeline / "registration").glob("pyspark_*.py")):
            zipped.write(source, source.name)
    return target
