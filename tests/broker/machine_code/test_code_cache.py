"""Machine code is kept in a folder of the user that no other user can write to."""

import ast
import os
import tempfile
from pathlib import Path

import pytest

from broker.machine_code import code_cache
from broker.machine_code.code_cache import CACHE_VARIABLE, cache_key, open_folder

BROKER = Path(code_cache.__file__).parents[1]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the user, and a folder for temporary files."""
    pytest.importorskip("numba", reason="the cache is one of numba")
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return tmp_path / "cache"


def used_folder(home: Path) -> Path:
    return home / "mqadmin" / "machine-code" / cache_key()


def refused(caplog: pytest.LogCaptureFixture, *, reason: str) -> None:
    """Assert that a temporary folder is used, and for which reason."""
    caplog.set_level("INFO", "broker.machine_code")
    with_code = open_folder()
    assert with_code.temporary
    assert list(with_code.path.iterdir()) == []
    assert with_code.path.stat().st_mode & 0o777 == 0o700
    assert reason in caplog.text
    with_code.close()
    assert not with_code.path.exists()


def test_the_folder_is_one_of_the_user_and_private(home: Path) -> None:
    found = open_folder()
    assert found == (used_folder(home), False)
    for folder in (found.path, *found.path.parents[:2]):
        assert folder.stat().st_mode & 0o777 == 0o700
    (found.path / "code").write_bytes(b"")
    found.close()
    assert open_folder() == found
    assert [one.name for one in found.path.iterdir()] == ["code"]


@pytest.mark.parametrize("value", [None, "", "relative/folder"])
def test_without_xdg_cache_home_the_folder_is_below_the_home(home, monkeypatch, value) -> None:
    monkeypatch.setenv("HOME", str(home))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert open_folder().path == used_folder(home / ".cache")


def test_a_folder_that_the_user_chose_is_verified_too(home, monkeypatch, caplog) -> None:
    chosen = home / "chosen"
    monkeypatch.setenv(CACHE_VARIABLE, str(chosen))
    assert open_folder() == (chosen, False)
    chosen.chmod(0o777)
    refused(caplog, reason="can be written by other users (mode 777)")


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_folder_that_others_can_write_is_refused(home, caplog, level: int, mode: int) -> None:
    code = open_folder().path / "package" / "code"
    code.parent.mkdir()
    code.write_bytes(b"")
    (code, *code.parents)[level].chmod(mode)
    refused(caplog, reason=f"can be written by other users (mode {mode:o})")


@pytest.mark.parametrize("level", range(6))
def test_a_folder_of_another_user_is_refused(home, monkeypatch, caplog, level: int) -> None:
    code = open_folder().path / "code"
    code.write_bytes(b"")
    path = (code, *code.parents)[level]
    found = Path.lstat

    def owned(self: Path) -> os.stat_result:
        real = found(self)
        if self != path:
            return real
        return os.stat_result((*real[:4], os.geteuid() + 1, *real[5:]))

    monkeypatch.setattr(Path, "lstat", owned)
    refused(caplog, reason=f"{path} belongs to another user")


def test_links_and_pipes_are_refused(home, tmp_path, caplog) -> None:
    folder = open_folder().path
    other = tmp_path / "other"
    other.mkdir()
    (folder / "code").symlink_to(other)
    refused(caplog, reason="is neither a file nor a folder")
    (folder / "code").unlink()
    os.mkfifo(folder / "code")
    refused(caplog, reason="is neither a file nor a folder")
    (folder / "code").unlink()
    folder.rmdir()
    folder.symlink_to(other)
    refused(caplog, reason="is a symbolic link")


def test_a_folder_that_cannot_be_made_or_written_is_replaced(home, monkeypatch, caplog) -> None:
    home.write_bytes(b"a file, not a folder")
    refused(caplog, reason="Not a directory")
    monkeypatch.delenv("XDG_CACHE_HOME")

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    refused(caplog, reason="Could not determine home")


def test_a_read_only_file_system_causes_no_warning(home, monkeypatch, caplog) -> None:
    def read_only(**arguments: object) -> None:
        raise OSError(30, "Read-only file system")

    open_folder()
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    refused(caplog, reason="Read-only file system")
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_the_code_of_the_newest_keys_is_retained(home: Path) -> None:
    keys = used_folder(home).parent
    keys.mkdir(parents=True, mode=0o700)
    for number in range(6):
        (keys / f"key{number}").mkdir()
        (keys / f"key{number}" / "code").write_bytes(b"")
        os.utime(keys / f"key{number}", (number, number))
    (keys / "file").write_bytes(b"")
    os.utime(keys / "file", (0, 0))
    open_folder()
    assert {one.name for one in keys.iterdir()} == {cache_key(), "key3", "key4", "key5"}


def test_a_key_changes_with_sources_versions_and_processor(home, monkeypatch, tmp_path) -> None:
    key = cache_key()
    assert cache_key() == key
    with monkeypatch.context() as patch:
        patch.setattr(code_cache.importlib.metadata, "version", lambda name: "9")
        assert cache_key() != key
    with monkeypatch.context() as patch:
        patch.setattr(code_cache.platform, "machine", lambda: "another one")
        assert cache_key() != key
    with monkeypatch.context() as patch:
        patch.setattr(code_cache, "SOURCES", code_cache.SOURCES[1:])
        assert cache_key() != key


def test_code_is_loaded_from_the_folder_that_is_used(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(code_cache, "chosen", [])
    assert code_cache.folder_in_use() == used_folder(home)
    code_cache.use_folder(home)
    assert code_cache.folder_in_use() == home


@pytest.mark.parametrize(("mode", "level"), [(0o700, "INFO"), (0o770, "WARNING")])
def test_without_a_usable_folder_no_code_is_kept(home, monkeypatch, caplog, mode, level) -> None:
    monkeypatch.setattr(code_cache, "chosen", [])
    caplog.set_level("INFO", "broker.machine_code")
    home.mkdir()
    home.chmod(mode)
    (home / "mqadmin").write_bytes(b"")  # no folder can be created below it
    assert code_cache.folder_in_use() is None
    assert code_cache.folder_in_use() is None
    (record,) = caplog.records
    assert record.levelname in ("INFO", level)
    assert "machine code is not kept" in record.message


def test_sources_contain_every_module_that_loops_import() -> None:
    listed = [BROKER / name for name in code_cache.SOURCES]
    assert all(place.exists() for place in listed)
    loops = [
        path
        for path in BROKER.rglob("*.py")
        if "machine_code.compiled_loop import" in path.read_text()
    ]
    assert len(loops) >= 4
    for path in loops:
        modules = [path]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("broker."):
                module = BROKER.parent / str(node.module).replace(".", "/")
                if module.is_dir():  # from broker.common import sysflag
                    modules += [module / f"{alias.name}.py" for alias in node.names]
                else:
                    modules.append(module.with_suffix(".py"))
        for module in modules:
            assert module.is_file(), (path, module)
            assert any(module == one or one in module.parents for one in listed), (path, module)
