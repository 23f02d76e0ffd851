"""Files between commands: written once, read in full, refused with their path."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from broker.errors import ClientError, ConfigError, DiskFullError
from mqadmin.admin.plans.json_file import load_json, save_new, write_new


class Content(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    numbers: list[int] = []


def load(path: Path, limit_bytes: int = 1000) -> Content:
    return load_json(
        str(path), Content, "plan file", limit_bytes=limit_bytes, hint="topic create writes it"
    )


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = Content(name="é\n\x00", numbers=[1, -2])
    path = tmp_path / "plan.json"
    save_new(str(path), content, "plan file")
    assert load(path) == content
    assert path.read_bytes().endswith(b"}\n")
    assert len(path.read_text().splitlines()) > 2, "people read it before they apply it"


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("mine")
    with pytest.raises(ConfigError, match=f"plan file {path}: File exists") as caught:
        save_new(str(path), Content(name="x"), "plan file")
    assert caught.value.hint == "name another file"
    assert path.read_text() == "mine"


def test_a_file_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none" / "plan.json"
    with pytest.raises(ConfigError, match="No such file"):
        save_new(str(path), Content(name="x"), "plan file")
    with pytest.raises(ConfigError, match="No such file") as caught:
        load(path)
    assert caught.value.hint == "is the path right?"


def test_every_cut_of_a_file_is_refused_with_the_command_that_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_new(str(path), Content(name="x", numbers=[1]), "plan file")
    whole = path.read_bytes()
    for end in range(len(whole) - 2):
        path.write_bytes(whole[:end])
        with pytest.raises(ConfigError, match=r"plan file .*plan\.json: ") as caught:
            load(path)
        assert caught.value.hint == "topic create writes it"


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"name": 5}', '{"name": "x", "numbers": ["y"]}', "[" * 100_000, "\xff"]
)
def test_content_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="plan file"):
        load(path, limit_bytes=1 << 20)


def test_a_file_at_the_limit_is_read_and_one_above_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_new(str(path), Content(name="x" * 50), "plan file")
    size = path.stat().st_size
    assert load(path, limit_bytes=size).name == "x" * 50
    with pytest.raises(ConfigError, match=f"more than {size - 1} bytes"):
        load(path, limit_bytes=size - 1)


def test_a_device_without_an_end_is_read_to_the_limit_only() -> None:
    if os.path.exists("/dev/zero"):
        with pytest.raises(ConfigError, match="more than 1000 bytes"):
            load(Path("/dev/zero"))


def test_a_file_that_cannot_be_written_whole_is_removed(tmp_path: Path) -> None:
    """A part of it would refuse the rerun, and look like a file that was damaged later."""
    path = tmp_path / "plan.json"

    def pieces(reason: BaseException) -> Iterator[bytes]:
        yield b"{"
        raise reason

    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(DiskFullError) as caught:
        write_new(str(path), pieces(full), "plan file")
    assert caught.value.message == f"cannot write plan file {path}: No space left on device"
    assert caught.value.path == str(path)
    for reason, kind in (
        (OSError(errno.EIO, "I/O error"), ConfigError),
        (ClientError("the broker failed"), ClientError),
    ):
        with pytest.raises(kind):
            write_new(str(path), pieces(reason), "plan file")
        assert not path.exists()
    assert write_new(str(path), [b"a", b"b"], "plan file") == 2
    assert path.read_bytes() == b"ab"


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors and shells on Windows write one."""
    path = tmp_path / "plan.json"
    path.write_bytes(b'\xef\xbb\xbf{"name": "x"}')
    assert load(path) == Content(name="x")
