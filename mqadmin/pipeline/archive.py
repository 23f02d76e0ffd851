"""The class-data archive: what the virtual machine loads at every start, once and for all.

Spark's start is mostly the loading of classes. A machine that ends can leave an archive of them
(``-XX:ArchiveClassesAtExit``); the next one maps it. It fits one Java build and one set of jars,
which its name therefore stands for.
"""

import hashlib
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from broker.errors import StoreError
from mqadmin.pipeline.java import JavaHome, cache_folder, class_path, find_java

DUMP_LIMIT_S: Final = 300


class Archive(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A class-data archive: its file, its size, the Java it fits, how starts changed (seconds)."""

    path: str
    bytes: int
    java: str
    java_origin: str
    start_seconds_before: float | None = None
    start_seconds_after: float | None = None


def archive_path(home: JavaHome) -> Path:
    """The archive's file for a Java and the installed Spark."""
    release = home.java.parent.parent / "release"
    build = release.read_bytes() if release.exists() else b""
    text = f"{home.java} {home.version}".encode() + build + class_path().encode()
    return cache_folder() / f"spark-java{home.version}-{hashlib.sha256(text).hexdigest()[:16]}.jsa"


def base_path(home: JavaHome) -> Path | None:
    """The base archive of a Java that has none of its own, None if it has one."""
    folder = home.java.parent.parent / "lib" / "server"
    if (folder / "classes.jsa").exists():
        return None
    return archive_path(home).with_suffix(".base.jsa")


def start_flags(home: JavaHome | None = None) -> tuple[str, ...]:
    """Flags that use the archive, none without one."""
    home = home or find_java()
    path = archive_path(home)
    if not path.exists():
        return ()
    base = base_path(home)
    files = str(path) if base is None else f"{base}:{path}"
    # A machine that does not like an archive says so at length, on stdout.
    return ("-Xlog:disable", f"-XX:SharedArchiveFile={files}")


def dump_flags(home: JavaHome, path: Path) -> tuple[str, ...]:
    """Flags that write the archive when the machine ends; the base archive is made first."""
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
            f"{home.java} made no base archive: {done.stderr.strip()[:200]}",
            "starts are slower without, everything else works",
            path=str(base),
        )
    return (*flags, f"-XX:SharedArchiveFile={base}")
