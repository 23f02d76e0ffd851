"""Class-data sharing (CDS) archive of the JVM, which shortens the start of Spark.

Most of Spark's start is class loading. A JVM can dump its loaded classes when it ends
(``-XX:ArchiveClassesAtExit``); later JVMs map that archive. An archive is valid for one Java build
and one class path, therefore both are part of its file name.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from broker.errors import StoreError
from mqadmin.pipeline.spark.java import JavaHome, cache_directory, class_path, find_java

DUMP_LIMIT_S: Final = 300


class Archive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A CDS archive: file, size, the Java it belongs to, seconds to start without and with it."""

    path: str
    bytes: int
    java: str
    java_origin: str
    start_seconds_before: float | None = None
    start_seconds_after: float | None = None


def archive_path(home: JavaHome) -> Path:
    """Return the file of the archive for a Java and the installed Spark."""
    release = home.java.parent.parent / "release"
    build = release.read_bytes() if release.exists() else b""
    text = f"{home.java} {home.version}".encode() + build + class_path().encode()
    name = f"spark-java{home.version}-{hashlib.sha256(text).hexdigest()[:16]}.jsa"
    return cache_directory() / name


def base_path(home: JavaHome) -> Path | None:
    """Return the file of the base archive to create, None if the Java has its own."""
    directory = home.java.parent.parent / "lib" / "server"
    if (directory / "classes.jsa").exists():
        return None
    return archive_path(home).with_suffix(".base.jsa")


def start_flags(home: JavaHome | None = None) -> tuple[str, ...]:
    """Return the JVM flags that use the archive, none if it does not exist."""
    home = home or find_java()
    path = archive_path(home)
    if not path.exists():
        return ()
    base = base_path(home)
    files = str(path) if base is None else f"{base}:{path}"
    # A JVM that rejects an archive reports that on stdout unless logging is disabled.
    return ("-Xlog:disable", f"-XX:SharedArchiveFile={files}")


def dump_flags(home: JavaHome, path: Path) -> tuple[str, ...]:
    """Return the JVM flags that write the archive at exit; create the base archive first.

    StoreError if the base archive cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    base = base_path(home)
    flags: tuple[str, ...] = ("-Xlog:disable", f"-XX:ArchiveClassesAtExit={path}")
    if base is None:
        return flags
    done = subprocess.run(
        [home.java, "-Xshare:dump", f"-XX:SharedArchiveFile={base}"],
        capture_output=True,
        text=True,
        timeout=DUMP_LIMIT_S,
        check=False,
    )
    if done.returncode != 0 or not base.exists():
        raise StoreError(
            f"{home.java} created no base archive: {done.stderr.strip()[:200]}",
            "the archive is optional: everything works without it, starts take longer",
            path=str(base),
        )
    return (*flags, f"-XX:SharedArchiveFile={base}")
