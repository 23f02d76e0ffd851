"""Each split writes its messages once, in complete files with a record."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from mqadmin.pipeline.jobs.export import ALL
from mqadmin.pipeline.sinks import parquet
from mqadmin.pipeline.sinks.parquet import (
    SPLITS,
    SplitWriter,
    escape_partition_value,
    read_record,
    split_name,
    store_key,
)
from mqadmin.pipeline.sources.options import RowFilter
from mqadmin.pipeline.sources.partitions.splits import Split, cut_file, log_files, written_length
from tests.support.pipeline_store import MakeLog, decode_store, normalize, read_export

FILES = "dt=*/topic=*/*.parquet"


def write(split: Split, out: Path, **options: str) -> parquet.SplitRecord:
    return SplitWriter(split, out, list(ALL)).write(RowFilter(), options)


def splits_of(root: Path, size: int) -> list[Split]:
    files, store = log_files(str(root))
    return [s for file in files for s in cut_file(file, written_length(file), size, store)]


def test_all_splits_together_contain_every_message_once(
    store_roots: dict[str, Path], tmp_path: Path
) -> None:
    for name, root in store_roots.items():
        out = tmp_path / name.replace("/", "-")
        for split in splits_of(root, 7000):
            write(split, out)
        assert normalize(read_export(out)) == normalize(decode_store(root)), name


def test_full_buffers_are_written_as_row_groups(
    make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(file_size=1 << 18)
    for number in range(400):
        log.put(f"Topic{number % 3}", body=b"x" * 200)
    monkeypatch.setattr(parquet, "MAX_BUFFERED_BYTES", 5_000)
    monkeypatch.setattr(parquet, "SCAN_ROWS", 25)
    (split,) = splits_of(log.root, 1 << 20)
    record = write(split, tmp_path / "out")
    assert sum(file.messages for file in record.files) == 400
    assert normalize(read_export(tmp_path / "out")) == normalize(decode_store(log.root))
    groups = [pq.ParquetFile(path).num_row_groups for path in (tmp_path / "out").glob(FILES)]
    assert max(groups) > 3


def test_a_split_is_complete_when_the_log_cannot_add_to_it(
    make_log: MakeLog, tmp_path: Path
) -> None:
    log = make_log(file_size=4096)
    while log.end < 4096 + 500:
        log.put()
    splits = splits_of(log.root, 2048)
    records = [write(split, tmp_path) for split in splits]
    done = [(record.start, record.complete) for record in records]
    # The end of the log is in the last split.
    assert done[:2] == [(0, True), (2048, True)]
    assert not records[-1].complete
    torn = log.end
    log.put()
    log.put()
    log.write(torn + 4, b"\0\0\0\0")
    log.write(log.end, bytes(4096 - log.end % 4096))
    last = splits_of(log.root, 2048)[2]
    assert write(last, tmp_path).reached >= torn


def test_rewriting_a_split_removes_its_old_files(make_log: MakeLog, tmp_path: Path) -> None:
    """The log was truncated and rewritten after the first run."""
    log = make_log(file_size=8192)
    log.put("Old")
    (split,) = splits_of(log.root, 1 << 20)
    first = write(split, tmp_path)
    assert [file.topic for file in first.files] == ["Old"]
    other = make_log("other", file_size=8192)
    other.put("New")
    log.file(0).write_bytes(other.file(0).read_bytes())
    write(split, tmp_path)
    assert [path.parent.name for path in tmp_path.glob(FILES)] == ["topic=New"]
    # Also if the first run was killed before it wrote the record.
    (tmp_path / SPLITS / f"{first.name}.json").unlink()
    log.file(0).write_bytes(b"")
    log.write(0, bytes(8))
    write(split, tmp_path)
    assert not list(tmp_path.glob(FILES))


def test_a_failed_task_leaves_no_temporary_files(
    make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(file_size=1 << 16)
    for number in range(50):
        log.put(f"Topic{number % 3}")
    original = parquet.PartitionFile.finish
    finished: list[Any] = []

    def failing(self: Any) -> Any:
        if finished:
            raise OSError("no space left on device")
        finished.append(original(self))
        return finished[0]

    monkeypatch.setattr(parquet.PartitionFile, "finish", failing)
    (split,) = splits_of(log.root, 1 << 20)
    out = tmp_path / "out"
    with pytest.raises(OSError, match="no space"):
        write(split, out)
    left = [path.name for path in out.rglob("*") if path.is_file()]
    assert left == [Path(finished[0].path).name]  # complete, and rewritten by the next attempt
    assert read_record(out, split_name(split)) is None


def test_partition_values_are_escaped_as_by_spark() -> None:
    assert escape_partition_value("%RETRY%g") == "%25RETRY%25g"
    assert escape_partition_value("plain-Topic_1.x") == "plain-Topic_1.x"
    assert escape_partition_value("a/b:c=d") == "a%2Fb%3Ac%3Dd"
    assert escape_partition_value("") == "__HIVE_DEFAULT_PARTITION__"


def test_a_record_that_is_missing_or_incomplete_is_ignored(tmp_path: Path) -> None:
    assert read_record(tmp_path, "x") is None
    (tmp_path / SPLITS).mkdir(parents=True)
    (tmp_path / SPLITS / "x.json").write_bytes(b'{"name": "x"')
    assert read_record(tmp_path, "x") is None


def test_the_key_of_a_store_does_not_depend_on_its_spelling(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert (
        store_key(str(tmp_path / "link")) == store_key(f"{tmp_path}/") == store_key(str(tmp_path))
    )


def test_only_selected_messages_are_written(make_log: MakeLog, tmp_path: Path) -> None:
    log = make_log(file_size=1 << 16)
    offsets = [log.put(f"Topic{number % 3}") for number in range(30)]
    log.write(offsets[4] + 4, b"\0\0\0\0")
    log.write(offsets[20] + 4, b"\0\0\0\0")
    (split,) = splits_of(log.root, 1 << 20)
    rows = RowFilter(topics=frozenset(["Topic1"]), from_offset=offsets[10])
    record = SplitWriter(split, tmp_path, ["topic", "physical_offset", "store_time"]).write(
        rows, {}
    )
    assert [row["physical_offset"] for row in read_export(tmp_path)] == offsets[10::3]
    assert record.damages == 1  # the other one is before the selected offsets
    assert record.first_damage is not None
    assert f"at physical offset {offsets[20]}" in record.first_damage
