"""Ingest is loaded once the traffic warrants it; without it the plain path serves."""

import importlib.util

import pytest

from broker.remoting.ingest import Segment
from broker.remoting.server import RemotingServer
from broker.server.ingest import compiling
from broker.server.ingest import loader as loading
from broker.server.ingest.figures import IngestFigures
from broker.server.ingest.loader import START_SENDS, IngestLoader, missing_packages
from tests.support.send_frames import send_frame


class Setup:
    """A loader whose thread is a list of jobs."""

    def __init__(self, desk) -> None:
        self.jobs: list = []
        self.figures = IngestFigures()
        self.context = desk.context
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


def offer(setup: Setup, sends: int) -> None:
    """Turns of two reads of 50 sends; their segments are left as they are."""
    for _ in range(sends // 100):
        segments = [Segment(None, send_frame(number) * 50) for number in range(2)]
        setup.loader.take(segments)
        assert [segment.position for segment in segments] == [0, 0]


def test_a_broker_with_little_traffic_loads_nothing(setup, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(loading.time, "monotonic", lambda: now[0])
    for _ in range(5):
        offer(setup, START_SENDS - 100)
        now[0] += loading.PERIOD_S + 1
    assert not setup.jobs
    assert setup.figures.state == "waiting"


def test_only_reads_that_start_with_a_send_count(setup) -> None:
    other = send_frame(1, code=34)
    setup.loader.take([Segment(None, other) for _ in range(START_SENDS)])
    assert setup.figures.state == "waiting"
    setup.loader.take([Segment(None, send_frame(1)) for _ in range(START_SENDS)])
    assert setup.figures.state == "loading"


def test_many_pipelined_sends_load_it(setup, warm, monkeypatch) -> None:
    monkeypatch.setattr(compiling.CompilingChild, "run", lambda child: None)
    offer(setup, START_SENDS + 500)
    assert setup.figures.state == "loading"
    assert setup.context.store.reader.copies is None
    setup.run()
    assert setup.figures.state == "active"
    assert setup.server.ingest is not setup.loader
    assert setup.context.store.reader.copies is not None


def test_a_forced_broker_takes_each_turn_from_its_start(setup, warm, monkeypatch) -> None:
    setup.loader.force()
    assert setup.figures.state == "active"
    ingest = setup.server.ingest
    assert ingest.least_frames == 1
    for value, forced in (("fast", True), ("plain", False), ("", False)):
        monkeypatch.setenv(loading.FORCE_VARIABLE, value)
        assert loading.is_forced() is forced


def test_a_load_that_fails_leaves_the_plain_path(setup, warm, monkeypatch, caplog) -> None:

    def fail(child: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compiling.CompilingChild, "run", fail)
    offer(setup, START_SENDS)
    setup.run()
    assert setup.server.ingest is None
    assert setup.figures.state.startswith("unavailable: [Errno 28]")
    assert "the plain path serves" in caplog.text


def test_missing_packages_are_found_without_an_import(monkeypatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "numba" else found(name)
    )
    assert "numba" in missing_packages()


def test_the_environment_decides_instead_of_the_setting(monkeypatch) -> None:
    for value, wanted in (("fast", (True, True)), ("plain", (False, False)), ("", (False, True))):
        monkeypatch.setenv(loading.FORCE_VARIABLE, value)
        assert (loading.is_wanted(False), loading.is_wanted(True)) == wanted
    monkeypatch.delenv(loading.FORCE_VARIABLE)
    assert (loading.is_wanted(False), loading.is_wanted(True)) == (False, True)


def test_a_stopped_broker_does_not_load(setup, warm) -> None:
    offer(setup, START_SENDS)
    setup.loader.stop()
    setup.run()
    assert setup.server.ingest is setup.loader
