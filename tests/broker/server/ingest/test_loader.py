"""Ingest is loaded once the traffic warrants it; without it the plain path serves."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from broker.remoting.server import RemotingServer
from broker.server.ingest import loader as loading
from broker.server.ingest.figures import IngestFigures
from broker.server.ingest.loader import START_READS, IngestLoader
from tests.support.send_frames import send_frame

JOBS = list


class Setup:
    """A loader whose thread is a list of jobs."""

    def __init__(self, desk) -> None:
        self.jobs: list = []
        self.figures = IngestFigures()
        self.server = RemotingServer(desk.handlers, clock=desk.clock, name="broker")
        self.loader = IngestLoader(
            desk.context, self.server, lambda: desk.sends.parts, self.figures, self.in_thread
        )
        self.server.ingest = self.loader

    def in_thread(self, job, done) -> None:
        self.jobs.append((job, done))

    def run(self) -> None:
        ((job, done),) = self.jobs
        try:
            job()
        except Exception as error:
            done(error)
        else:
            done(None)


@pytest.fixture
def setup(desk) -> Setup:
    return Setup(desk)


def offer(setup: Setup, reads: int) -> None:
    for _ in range(reads):
        assert setup.loader.take(None, send_frame(1)) == 0


def test_a_broker_with_little_traffic_loads_nothing(setup, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loading.time, "monotonic", lambda: now[0])
    for _ in range(5):
        offer(setup, START_READS - 1)
        now[0] += loading.PERIOD_S + 1
    assert not setup.jobs
    assert setup.figures.state == "waiting"


def test_many_reads_with_several_frames_load_it(setup, monkeypatch) -> None:
    pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
    monkeypatch.setattr(loading, "compile_in_child", lambda running: None)
    offer(setup, START_READS + 5)
    assert setup.figures.state == "loading"
    setup.run()
    assert setup.figures.state == "active"
    assert setup.server.ingest is not setup.loader


def test_without_the_extra_the_plain_path_stays(setup, monkeypatch, caplog) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba" else found(name)
    )
    offer(setup, START_READS)
    setup.run()
    assert setup.server.ingest is None
    assert setup.figures.state == "unavailable: not installed: numba"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_stopped_broker_does_not_load(setup) -> None:
    offer(setup, START_READS)
    setup.loader.stop()
    setup.run()
    assert setup.server.ingest is setup.loader


def test_stopping_ends_the_child_that_compiles(monkeypatch) -> None:
    child = loading.CompilingChild()
    monkeypatch.setattr(child, "arguments", [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(child, "on_started", child.stop)
    child.run()  # returns because the child was ended


def test_a_cache_folder_that_cannot_be_written_is_replaced(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv(loading.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(loading, "can_write", lambda folder: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    folder = loading.make_cache_folder()
    assert Path(folder).parent == tmp_path
    assert os.environ[loading.CACHE_VARIABLE] == folder
    monkeypatch.delenv(loading.CACHE_VARIABLE)


def test_a_cache_folder_of_the_user_is_kept(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv(loading.CACHE_VARIABLE, str(tmp_path))
    assert loading.make_cache_folder() == ""


def test_a_missing_folder_is_created_and_a_file_is_not_a_folder(tmp_path: Path) -> None:
    assert loading.can_write(tmp_path / "a" / "b")
    (tmp_path / "file").write_bytes(b"")
    assert not loading.can_write(tmp_path / "file")
