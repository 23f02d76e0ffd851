"""The order in which the timer files are written, and the checkpoints that are not used."""

from pathlib import Path

import pytest

from broker.store.format.timer import TimerCheckpoint, encode_timer_checkpoint
from broker.store.logfile.disk import Disk
from broker.store.timer.timer_log import TimerLog
from broker.store.timer.timer_progress import TimerProgress
from broker.store.timer.timer_wheel import Chain, TimerWheel

STATE = TimerCheckpoint(1_700_000_000_000, 104, 7, 7, 0, 1_700_000_000_000, 3)


@pytest.fixture
def progress(tmp_path: Path) -> TimerProgress:
    disk = Disk()
    log = TimerLog(disk, str(tmp_path / "timerlog"), 1_000)
    wheel = TimerWheel(disk, str(tmp_path / "timerwheel"), 1_000, 64)
    return TimerProgress(disk, str(tmp_path), log, wheel)


def test_checkpoint_is_read_back(progress: TimerProgress) -> None:
    assert progress.read([]) is None
    progress.write(STATE, {}, '{"x":1}')
    assert progress.read([]) == STATE
    assert progress.metrics_file.load() == '{"x":1}'


def test_log_precedes_wheel_precedes_checkpoint(
    progress: TimerProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    monkeypatch.setattr(progress.timer_log, "sync", lambda end: order.append(("log", end)))
    write = progress.wheel.write

    def wheel(changes: dict[int, Chain | None]) -> None:
        order.append(("wheel", Path(progress.path).exists()))
        write(changes)

    monkeypatch.setattr(progress.wheel, "write", wheel)
    progress.write(STATE, {5_000: Chain(0, 52, 2)}, "")
    assert order == [("log", 104), ("wheel", False)]
    assert Path(progress.path).exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(4096),
        encode_timer_checkpoint(STATE)[:55],
        encode_timer_checkpoint(STATE._replace(last_read_time=-1)),
        encode_timer_checkpoint(STATE._replace(last_timer_queue_offset=-1)),
    ],
)
def test_unusable_checkpoint_is_reported(progress: TimerProgress, data: bytes) -> None:
    Path(progress.path).parent.mkdir()
    Path(progress.path).write_bytes(data)
    notes: list[str] = []
    assert progress.read(notes) is None
    assert "timercheck" in notes[0]
