"""The class-data archive: named for what it fits, used where it is, harmless where it is not."""

from pathlib import Path

import pytest

from broker.errors import StoreError
from mqadmin.pipeline import archive
from mqadmin.pipeline.archive import archive_path, base_path, dump_flags, start_flags
from mqadmin.pipeline.java import JavaHome


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mqadmin"


def made_java(root: Path, *, build: str = "17.0.1", base: bool = True, dump: int = 0) -> JavaHome:
    """A Java home; ``dump`` is the status of making a base archive with it."""
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


def test_an_archive_fits_one_build_and_one_set_of_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = made_java(tmp_path / "a"), made_java(tmp_path / "b", build="17.0.2")
    assert archive_path(one) != archive_path(other)
    before = archive_path(one)
    monkeypatch.setattr(archive, "class_path", lambda: "/other/spark.jar")
    assert archive_path(one) != before


def test_starts_use_it_once_it_is_there(tmp_path: Path) -> None:
    home = made_java(tmp_path / "java")
    assert start_flags(home) == ()
    flags = dump_flags(home, archive_path(home))
    assert f"-XX:ArchiveClassesAtExit={archive_path(home)}" in flags
    archive_path(home).touch()
    # A machine talks about archives on stdout unless it is told not to.
    assert start_flags(home) == ("-Xlog:disable", f"-XX:SharedArchiveFile={archive_path(home)}")


def test_a_java_without_a_base_archive_gets_one(tmp_path: Path) -> None:
    home = made_java(tmp_path / "java", base=False)
    base = base_path(home)
    assert base is not None
    flags = dump_flags(home, archive_path(home))
    assert base.exists()
    assert flags[-1] == f"-XX:SharedArchiveFile={base}"
    archive_path(home).touch()
    assert start_flags(home)[-1] == f"-XX:SharedArchiveFile={base}:{archive_path(home)}"


def test_a_base_archive_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    home = made_java(tmp_path / "java", base=False, dump=1)
    with pytest.raises(StoreError, match="no base archive: no space"):
        dump_flags(home, archive_path(home))
