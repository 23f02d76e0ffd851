"""The class-data archive: its name, the flags that use it, the flags that write it."""

from pathlib import Path

import pytest

from broker.errors import StoreError
from mqadmin.pipeline.spark import archive
from mqadmin.pipeline.spark.archive import archive_path, base_path, dump_flags, start_flags
from mqadmin.pipeline.spark.java import JavaHome


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mqadmin"


def fake_java(root: Path, *, build: str = "17.0.1", base: bool = True, dump: int = 0) -> JavaHome:
    """Create a Java home; ``dump`` is the exit status of its ``-Xshare:dump``."""
    (root / "bin").mkdir(parents=True)
    program = root / "bin" / "java"
    write = 'for word do case $word in -XX:SharedArchiveFile=*) : >"${word#*=}";; esac; done'
    program.write_text(f"#!/bin/sh\n{write if not dump else 'echo no space >&2'}\nexit {dump}\n")
    program.chmod(0o755)
    (root / "release").write_text(f'JAVA_VERSION="{build}"\n')
    if base:
        (root / "lib" / "server").mkdir(parents=True)
        (root / "lib" / "server" / "classes.jsa").touch()
    return JavaHome(java=program, version=17, origin="PATH")


def test_the_name_depends_on_the_java_build_and_the_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = fake_java(tmp_path / "a"), fake_java(tmp_path / "b", build="17.0.2")
    assert archive_path(one) != archive_path(other)
    before = archive_path(one)
    monkeypatch.setattr(archive, "class_path", lambda: "/other/spark.jar")
    assert archive_path(one) != before


def test_starts_use_an_existing_archive(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java")
    assert start_flags(home) == ()
    flags = dump_flags(home, archive_path(home))
    assert f"-XX:ArchiveClassesAtExit={archive_path(home)}" in flags
    archive_path(home).touch()
    # The JVM reports problems with archives on stdout unless logging is disabled.
    assert start_flags(home) == ("-Xlog:disable", f"-XX:SharedArchiveFile={archive_path(home)}")


def test_a_missing_base_archive_is_created(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", base=False)
    base = base_path(home)
    assert base is not None
    flags = dump_flags(home, archive_path(home))
    assert base.exists()
    assert flags[-1] == f"-XX:SharedArchiveFile={base}"
    archive_path(home).touch()
    assert start_flags(home)[-1] == f"-XX:SharedArchiveFile={base}:{archive_path(home)}"


def test_a_failure_to_create_the_base_archive_is_reported(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", base=False, dump=1)
    with pytest.raises(StoreError, match="no base archive: no space"):
        dump_flags(home, archive_path(home))
