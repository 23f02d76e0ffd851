"""Planning of splits: sizes, and files that cannot contain selected rows."""

from pathlib import Path
from typing import Any

import pytest

from broker.errors import StoreError
from mqadmin.pipeline.sources.options import RowFilter
from mqadmin.pipeline.sources.partitions import splits
from mqadmin.pipeline.sources.partitions.splits import log_files
from tests.support.pipeline_store import NOW, LogBuilder, MakeLog

HOUR_MS = 3_600_000


def planned_files(log: LogBuilder, **rows: Any) -> list[int]:
    found = splits.plan_splits([str(log.root)], RowFilter(**rows), {})
    return sorted({split.base for split in found})


@pytest.fixture
def hourly_log(make_log: MakeLog) -> LogBuilder:
    """A log of several files with a message per hour."""
    log = make_log(file_size=4096)
    for number in range(60):
        log.put(store_timestamp=NOW + number * HOUR_MS)
    return log


def test_files_outside_the_physical_offsets_are_skipped(hourly_log: LogBuilder) -> None:
    files, _ = log_files(str(hourly_log.root))
    assert planned_files(hourly_log) == [file.start for file in files]
    assert planned_files(hourly_log, from_offset=4096, to_offset=8192) == [4096]


def test_files_outside_the_store_times_are_skipped(hourly_log: LogBuilder) -> None:
    files, _ = log_files(str(hourly_log.root))
    late = planned_files(hourly_log, since_ms=NOW + 40 * HOUR_MS)
    early = planned_files(hourly_log, until_ms=NOW + 20 * HOUR_MS)
    assert 0 < len(late) < len(files)
    assert 0 < len(early) < len(files)
    assert late[-1] == files[-1].start
    assert early[0] == 0


def test_a_clock_that_goes_back_an_hour_loses_no_rows(make_log: MakeLog) -> None:
    log = make_log(file_size=4096)
    while log.end < 4096:
        log.put(store_timestamp=NOW)
    while log.end < 8192:  # the clock was set back
        log.put(store_timestamp=NOW - splits.CLOCK_STEP_MS)
    assert 0 in planned_files(log, since_ms=NOW)
    assert 4096 in planned_files(log, until_ms=NOW - splits.CLOCK_STEP_MS + 1)


def test_an_empty_or_unwritten_file_has_no_splits(make_log: MakeLog) -> None:
    log = make_log(file_size=1 << 21)
    log.put()
    spare = log.file(1 << 21)
    with spare.open("wb") as file:
        file.truncate(1 << 21)
    log.file(2 << 21).touch()
    assert planned_files(log) == [0]


def test_splits_are_at_least_128_mib_by_default() -> None:
    assert splits.split_bytes({}, 1000) == 128 << 20
    assert splits.split_bytes({}, 1 << 50) > 128 << 20
    assert splits.split_bytes({"splitbytes": "77"}, 1 << 50) == 77


def test_splits_cover_the_written_bytes_of_a_file(make_log: MakeLog) -> None:
    log = make_log(file_size=1 << 16)
    for _ in range(30):
        log.put()
    cut = splits.plan_splits([str(log.root)], RowFilter(), {"splitbytes": "1000"})
    ((file,), _) = log_files(str(log.root))
    length = splits.written_length(file)
    assert length >= log.end
    assert [split.start for split in cut] == list(range(0, length, 1000))
    assert [split.end for split in cut[:-1]] == [split.start for split in cut[1:]]
    assert cut[-1].end == length
    assert [split.exact for split in cut] == [True] + [False] * (len(cut) - 1)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such"):
        log_files(str(tmp_path / "nowhere"))
