"""Files are replaced atomically."""

from pathlib import Path

import pytest

from mqadmin.pipeline.sinks.atomic_file import write_atomically


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_replaced_and_no_temporary_file_remains(tmp_path: Path, sync: bool) -> None:
    path = tmp_path / "file"
    for data in (b"first", b""):
        write_atomically(path, data, sync=sync)
        assert path.read_bytes() == data
        assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def no_space(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mqadmin.pipeline.sinks.atomic_file.os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
