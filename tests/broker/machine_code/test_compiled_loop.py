"""Machine code that cannot be read or kept is compiled again: no file is an error of the caller."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="loops need the extra 'fast'")

LOOP = """
import sys
import numpy as np
from broker.machine_code import compiled_loop as module

if "full" in sys.argv:
    import errno
    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")
    module._SealedFiles._save_data = no_space

@module.inlined_loop
def twice(value):
    return 2 * value

@module.compiled_loop
def total(numbers):
    found = numbers[0]
    for index in range(1, numbers.shape[0]):
        found += twice(numbers[index])
    return found

numbers = np.arange(10.0) if "float" in sys.argv else np.arange(10)
print(total(numbers), len(total.stats.cache_hits), len(total.stats.cache_misses))
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Run the loop in a new process; return its output and the messages of the log."""
    program = tmp_path / "loop.py"
    program.write_text(LOOP)

    def run(
        *words: str, cache: object = tmp_path / "cache", where: Path = program, umask: int = 0o022
    ) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, str(where), *words],
            umask=umask,
            env={"PYTHONPATH": ":".join(sys.path), "XDG_CACHE_HOME": str(cache)},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout.strip(), done.stderr

    return run


def files(tmp_path: Path) -> list[Path]:
    """The files of the loop that takes arrays, one per types."""
    return sorted(path for path in (tmp_path / "cache").rglob("*.total-*"))


def test_code_is_kept_for_the_next_process(run, tmp_path: Path) -> None:
    assert run() == ("90 0 1", "")
    assert [path.suffix for path in files(tmp_path)] == [".nbc"]
    assert run() == ("90 1 0", "")


def test_processes_that_compile_for_different_types_at_once_do_not_mix_them(run, tmp_path) -> None:
    # As if both had started with an empty folder: neither sees the files of the other.
    assert run(cache=tmp_path / "other") == ("90 0 1", "")
    assert run("float") == ("90.0 0 1", "")
    shutil.copytree(tmp_path / "other", tmp_path / "cache", dirs_exist_ok=True)
    assert len(files(tmp_path)) == 2
    assert run() == ("90 1 0", "")
    assert run("float") == ("90.0 1 0", "")


def test_files_are_private_whatever_the_umask(run, tmp_path: Path) -> None:
    assert run(umask=0) == ("90 0 1", "")
    assert [path.stat().st_mode & 0o777 for path in files(tmp_path)] == [0o600]
    assert run(umask=0) == ("90 1 0", "")


def test_the_place_of_a_module_does_not_matter(run, tmp_path: Path) -> None:
    assert run() == ("90 0 1", "")
    with zipfile.ZipFile(tmp_path / "loop.zip", "w") as file:  # as on the workers of Spark
        file.write(tmp_path / "loop.py", "__main__.py")
    assert run(where=tmp_path / "loop.zip") == ("90 0 1", "")  # another name of the file
    assert run(where=(tmp_path / "loop.zip").rename(tmp_path / "moved.zip")) == ("90 1 0", "")


def cut(content: bytes, at: int) -> bytes:
    """The content before ``at``."""
    return content[:at]


def lost_block(content: bytes, at: int) -> bytes:
    """Zeros in place of 512 bytes from ``at`` on."""
    return content[:at] + bytes(min(512, len(content) - at)) + content[at + 512 :]


def flipped(content: bytes, at: int) -> bytes:
    """One bit of the byte at ``at`` changed."""
    return content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]


def test_a_damaged_file_is_replaced(run, tmp_path: Path, rng) -> None:
    assert run()[0] == "90 0 1"
    (path,) = files(tmp_path)
    content = path.read_bytes()
    last, somewhere = len(content) - 1, rng.randrange(len(content))
    defects = (cut, 0), (cut, last), (cut, somewhere), (lost_block, 0), (flipped, somewhere)
    for damage, at in defects:
        damaged = damage(content, at)
        path.write_bytes(damaged)
        assert run() == ("90 0 1", ""), (damage, at)
        assert run() == ("90 1 0", ""), (damage, at)


def test_a_full_disk_costs_only_the_next_process_its_code(run) -> None:
    output, messages = run("full")
    assert output == "90 0 1"
    assert "No space left on device" in messages
    assert run() == ("90 0 1", "")


def test_without_a_folder_a_loop_is_compiled_for_one_process(run, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")  # no folder can be created below a file
    assert run(cache=place) == ("90 0 1", "")
    assert not files(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "loop.py"]
