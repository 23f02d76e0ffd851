"""The progress line: printed on a terminal only."""

import pytest

from mqadmin.output import progress
from mqadmin.output.progress import Progress, progress_line


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
