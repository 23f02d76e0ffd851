"""Thresholds of checks."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.check.noun import gap_limits, replace_file
from mqadmin.command.execution.failure import UsageFault
from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("64MiB", (64 << 20, None)),
        ("1.5k,30s", (1536, 30.0)),
        ("5m", (None, 300.0)),
        ("500", (500, None)),
        ("10s, 2GiB", (2 << 30, 10.0)),
    ],
)
def test_a_gap_is_bytes_seconds_or_both(text: str, limits: tuple[int | None, float | None]) -> None:
    assert gap_limits(text) == limits


@pytest.mark.parametrize("text", ["", "much", "-5", "5 apples", "1MiB,"])
def test_another_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size or a duration"):
        gap_limits(text)


def test_a_file_of_samples_is_replaced_at_once_and_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "lag.prom"
    path.write_text("old")
    replace_file(str(path), "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o044 == 0o044 & ~os.umask(os.umask(0o022))
    assert [one.name for one in tmp_path.iterdir()] == ["lag.prom"]


def test_a_file_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder.prom").mkdir()
    with pytest.raises(UsageFault, match="--outfile"):
        replace_file(str(tmp_path / "folder.prom"), "new\n")
    assert [one.name for one in tmp_path.iterdir()] == ["folder.prom"]


def test_a_pipe_or_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    """``--outfile /dev/stdout``, and for root ``/dev/null``."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in (path, link):
            replace_file(str(name), "new\n")
            assert os.read(reader, 100) == b"new\n"
    finally:
        os.close(reader)
    assert path.is_fifo()
    assert link.is_symlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "pipe"]


def test_the_file_has_the_samples_whatever_is_printed(
    check: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "disk.prom"
    done = check("disk", "--outfile", str(path))
    assert (done.status, done.out[:9]) == (0, "DISK OK -")
    assert path.read_text() == check("disk", "-o", "prometheus").out
    assert check("disk", "--outfile", str(tmp_path / "nosuch" / "x")).status == 3


@pytest.mark.parametrize("name", ["disk", "dlq", "replication", "lag"])
def test_a_cluster_without_brokers_is_unknown(
    mqadmin: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """All of its brokers are down: that is not OK."""
    empty = FakeCluster()
    monkeypatch.setattr(
        "mqadmin.command.execution.session.connect", lambda settings, trace: empty.admin()
    )
    done = mqadmin("check", name)
    line = f"{name.upper()} UNKNOWN - no broker is registered at the name server\n"
    assert (done.status, done.out) == (3, line)
    assert done.err.startswith("hint: is the broker running")
    done = mqadmin("check", name, "-o", "json")
    assert json.loads(done.err)["error"]["hint"].startswith("is the broker running")
