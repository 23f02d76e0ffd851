"""Files and directories of a store in each other's place."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.server.check import check_store
from broker.store.file_types import check_file_types
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageExtBrokerInner
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.verify.verifier import verify
from tests.support.stores import Stores

FILES = (
    "checkpoint",
    "lock",
    "timerwheel",
    "commitlog/00000000000000000000",
    "consumequeue/T/0/00000000000000000000",
    "index/20260101000000000",
    "timerlog/00000000000000000000",
    "config/topics.json",
    "config/topics.json.bak",
    "config/timercheck",
)
DIRECTORIES = (
    "commitlog",
    "consumequeue",
    "batchconsumequeue",
    "index",
    "timerlog",
    "config",
    "consumequeue/T",
    "consumequeue/T/0",
    "batchconsumequeue/T",
    "batchconsumequeue/T/0",
    "consumequeue_ext/T",
    "consumequeue_ext/T/0",
)

Move = Callable[[str], Path]


@pytest.fixture
def root(stores: Stores, inner: Callable[..., MessageExtBrokerInner]) -> Path:
    """A store with one message, closed."""
    store = stores.start()
    store.put_message(inner(topic="T"))
    stores.close(store)
    return stores.root


@pytest.fixture
def moved(tmp_path: Path, root: Path) -> Iterator[Move]:
    """``moved(name)`` moves an entry of the store out of it; it is back after the test."""
    moves = []

    def move(name: str) -> Path:
        path, kept = root / name, tmp_path / "kept"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.rename(kept)
        moves.append((path, kept))
        return path

    yield move
    for path, kept in moves:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
        if kept.exists():
            kept.rename(path)


def reported_errors(root: Path) -> str:
    """The paths with an error in `store verify`, or the error that ends it."""
    try:
        rows = verify(StoreDirectory(root)).findings
    except StoreError as error:
        return error.message
    return " ".join(row.path for row in rows if row.severity == "error")


def check_refused(stores: Stores, path: Path, cause: str) -> None:
    """The store is refused by its own start, by --check and by store verify."""
    with pytest.raises(StoreError, match=f"{path}: {cause}"):
        list(check_store(stores.last_config))
    with pytest.raises(StoreError, match=f"{path}: {cause}"):
        stores.load()
    assert str(path) in reported_errors(stores.root)


@pytest.mark.parametrize("name", FILES)
def test_a_directory_in_place_of_a_file_is_refused(stores: Stores, moved: Move, name: str) -> None:
    path = moved(name)
    path.mkdir(parents=True)
    check_refused(stores, path, "is a directory, not a file")


@pytest.mark.parametrize("name", [name for name in FILES if not name[-1].isdecimal()])
def test_a_named_pipe_in_place_of_a_file_is_refused(stores: Stores, moved: Move, name: str) -> None:
    path = moved(name)
    os.mkfifo(path)
    check_refused(stores, path, "is neither a file nor a directory")


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to(path.name)])
@pytest.mark.parametrize("name", [name for name in FILES if name[-1].isdecimal()])
def test_verification_names_a_pipe_or_a_loop_in_place_of_a_numbered_file(
    stores: Stores, moved: Move, name: str, put: Callable[[Path], None]
) -> None:
    path = moved(name)
    put(path)
    assert str(path) in reported_errors(stores.root).split()


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_file_in_place_of_a_directory_is_refused(stores: Stores, moved: Move, name: str) -> None:
    path = moved(name)
    path.write_bytes(b"x")
    check_refused(stores, path, "is not a directory")


@pytest.mark.parametrize("name", ["checkpoint", "lock", "config/topics.json", "consumequeue"])
def test_a_link_to_a_missing_target_is_refused(stores: Stores, moved: Move, name: str) -> None:
    path = moved(name)
    path.symlink_to("missing")
    check_refused(stores, path, "is a link to a missing target")


@pytest.mark.parametrize("name", ["consumequeue", "batchconsumequeue", "consumequeue_ext"])
def test_a_file_that_has_no_name_of_a_topic_is_accepted(
    stores: Stores, root: Path, name: str
) -> None:
    path = root / name / ".DS_Store"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    list(check_store(stores.last_config))
    assert verify(StoreDirectory(root)).findings == []
    stores.load()


def test_directories_with_other_names_are_accepted(root: Path) -> None:
    for name in ("backup", "config/topics", "config/users"):
        (root / name).mkdir(parents=True)
    check_file_types(Disk(), str(root))
    assert (root / "config" / "users").is_dir()
