"""Configuration files: the new text or the old one, at any moment."""

import pytest

from broker.store.config_file import ConfigFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "topics.json"


def test_the_last_text_is_read_and_the_one_before_kept(path):
    file = ConfigFile(str(path))
    assert file.load() == ""
    file.persist("one")
    assert file.load() == "one"
    assert file.load_backup() == ""
    file.persist("zwei ü")
    assert file.load() == "zwei ü"
    assert file.load_backup() == "one"
    assert sorted(p.name for p in path.parent.iterdir()) == ["topics.json", "topics.json.bak"]


@pytest.mark.parametrize("broken", [None, b"", b"\0" * 9, b" \n"])
def test_a_missing_or_empty_file_gives_way_to_its_backup(path, broken):
    file = ConfigFile(str(path))
    file.persist("one")
    file.persist("two")
    path.unlink() if broken is None else path.write_bytes(broken)
    assert file.load() == "one"


@pytest.mark.parametrize("broken", [b"", b" \n", b"{broken"])
def test_a_broken_file_never_takes_the_place_of_its_backup(path, faulty_disk, broken):
    """The next write fails at each of its calls: file or backup is good at any moment."""
    for number in range(1, 30):
        ConfigFile(str(path)).persist("zero")
        ConfigFile(str(path)).persist("one")
        path.write_bytes(broken)
        file = ConfigFile(str(path), faulty_disk)
        file.load()
        file.backup_counts = True  # set by a reader that cannot decode the text
        faulty_disk.calls.clear()
        faulty_disk.fail_call = number
        faulty_disk.failed_call = ""
        try:
            file.persist("two")
        except OSError:
            assert path.read_bytes() in (broken, b"two")
        assert file.load_backup() == "zero"
        if not faulty_disk.failed_call:
            break
    assert file.load() == "two"
    faulty_disk.fail_call = 0
    file.persist("three")
    assert file.load_backup() == "two"


def test_whichever_call_fails_a_whole_text_is_there(path, faulty_disk):
    ConfigFile(str(path)).persist("zero")
    ConfigFile(str(path)).persist("one")
    failed = set()
    for number in range(1, 30):
        faulty_disk.calls.clear()
        faulty_disk.fail_call = number
        faulty_disk.failed_call = ""
        try:
            ConfigFile(str(path), faulty_disk).persist("two")
        except OSError:
            assert ConfigFile(str(path)).load() in ("one", "two")
            assert ConfigFile(str(path)).load_backup() in ("zero", "one", "two")
        failed.add(faulty_disk.failed_call)
        if not faulty_disk.failed_call:
            break
    assert failed >= {"write", "link", "rename", "sync_folder", ""}
    assert ConfigFile(str(path)).load() == "two"
