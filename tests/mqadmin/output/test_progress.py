"""The progress line: printed on a terminal only."""

import pytest

from mqadmin.output import progress
from mqadmin.output.progress import Progress, part_line, progress_line


def test_a_line_contains_fraction_rate_and_remaining_time() -> None:
    assert progress_line("log", 50_000_000, 200_000_000, 2.0) == (
        "log [######..................]  25%  25 MB/s  6 s left"
    )
    assert progress_line("queues", 3_000_000, 0, 1.0) == "queues: 3 MB, 3 MB/s"
    assert "100%" in progress_line("log", 9, 8, 1.0)
    assert "0 s left" in progress_line("log", 0, 8, 0.0)


def test_only_a_terminal_sees_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with Progress() as quiet:
        now[0] += 10
        quiet.show("log", 1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "stderr_is_terminal", lambda: True)
    with Progress() as shown:
        shown.show("log", 1, 2)  # too early
        now[0] += 10
        shown.show("log", 1, 2)
        shown.show("log", 2, 2)  # too soon after the last
    text = capsys.readouterr().err
    assert text.count("log [") == 1
    assert text.endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("done", "total", "seconds", "line"),
    [
        (0, 10, 1.0, "x [........................]   0%  0 s left"),
        (5, 10, 3.0, "x [############............]  50%  3 s left"),
        (10, 10, 3.0, "x [########################] 100%  0 s left"),
        (11, 10, 3.0, "x [########################] 100%  0 s left"),
        (1, 0, 3.0, "x"),
        (1, -1, 3.0, "x"),
    ],
)
def test_a_line_of_any_unit(done: float, total: float, seconds: float, line: str) -> None:
    assert part_line("x", done, total, seconds) == line


def test_before_any_time_has_passed_the_rate_is_zero() -> None:
    assert progress_line("x", 5_000_000, 0, 0.0) == "x: 5 MB, 0 MB/s"
    assert progress_line("x", 0, 10, 5.0).endswith("0 MB/s  0 s left")


def test_the_bar_never_shrinks_while_more_is_done() -> None:
    bars = [part_line("x", done, 1000, 1.0).count("#") for done in range(0, 1001, 7)]
    assert bars == sorted(bars)
    assert (bars[0], part_line("x", 1000, 1000, 1.0).count("#")) == (0, 24)


def test_a_disabled_progress_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "stderr_is_terminal", lambda: True)
    with Progress(enabled=False) as quiet:
        now[0] += 10
        quiet.show_part("log", 1, 2)
        assert quiet.seconds == 10
    assert capsys.readouterr().err == ""


def test_the_line_is_erased_after_an_error_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "stderr_is_terminal", lambda: True)
    with pytest.raises(ValueError, match="mine"), Progress() as shown:
        now[0] += 2
        shown.show_part("log", 1, 2)
        raise ValueError("mine")
    assert capsys.readouterr().err.endswith("\r\x1b[K")
