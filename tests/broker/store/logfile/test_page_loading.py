"""Pages that are loaded for writing: present, with their content; errors are reported."""

import errno
import sys

import pytest

from broker.store.logfile import page_loading
from broker.store.logfile.disk import Disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are loaded on Linux only")


def resident_bytes(path) -> int:
    """Bytes of a file that are in the memory of this process."""
    mapped, total = False, 0
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                mapped = words[-1] == str(path)
            elif words[0] == "Rss:" and mapped:
                total += int(words[1]) * 1024
    return total


def test_loaded_pages_are_present_with_their_content(tmp_path):
    disk = Disk()
    path = tmp_path / "f"
    path.write_bytes(b"x" * (16 * 4096))
    fd = disk.open(str(path))
    mapping = disk.map(fd, 16 * 4096)
    disk.close(fd)
    assert resident_bytes(path) == 0
    try:
        disk.load_pages(mapping, 4 * 4096, 9 * 4096)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip(f"the kernel cannot load pages for writing: {error}")
    assert resident_bytes(path) >= 5 * 4096
    assert bytes(mapping) == b"x" * (16 * 4096)
    disk.unmap(mapping)


def test_a_system_that_cannot_load_pages_is_reported(tmp_path, monkeypatch):
    disk = Disk()
    path = tmp_path / "f"
    path.write_bytes(bytes(4096))
    fd = disk.open(str(path))
    mapping = disk.map(fd, 4096)
    disk.close(fd)
    monkeypatch.setattr(page_loading, "MADV_POPULATE_WRITE", 9_999)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.load_pages(mapping, 0, 4096)
    disk.unmap(mapping)
