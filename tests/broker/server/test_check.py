"""mqbroker --check: its report about a store."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.remoting.process import daemon
from broker.server.check import check_store
from broker.store.config import MessageStoreConfig
from broker.store.logfile.disk import Disk
from tests.support.made_store import MadeStore

GOOD = '{"topicConfigTable":{"T":{"topicName":"T"}}}'


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    return tmp_path


def lines(store: Path, **settings: int) -> list[str]:
    return list(check_store(MessageStoreConfig(store_path_root_dir=str(store), **settings)))


def put(store: Path, name: str, length: int) -> None:
    path = store / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(length))


def test_store_that_is_not_there_will_be_made(tmp_path: Path) -> None:
    (line,) = lines(tmp_path / "new" / "store")
    assert line.endswith("will be made")
    assert not (tmp_path / "new").exists()


def test_readable_files_are_named(store) -> None:
    (store / "config" / "topics.json").write_text(GOOD, encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json: readable"]


def test_the_backup_replaces_a_corrupt_file(store) -> None:
    (store / "config" / "topics.json").write_text("{", encoding="utf-8")
    (store / "config" / "topics.json.bak").write_text(GOOD, encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json.bak: readable"]


def test_empty_file_is_an_empty_table(store) -> None:
    (store / "config" / "topics.json").write_text("", encoding="utf-8")
    assert lines(store) == [f"{store}/config/topics.json: empty"]


def test_damaged_file_without_backup_is_an_error(store) -> None:
    (store / "config" / "consumerOffset.json").write_text("[1", encoding="utf-8")
    with pytest.raises(StoreError, match=r"consumerOffset\.json"):
        lines(store)


def test_looking_changes_nothing(store) -> None:
    file = store / "config" / "topics.json"
    file.write_text(GOOD, encoding="utf-8")
    before = sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*"))
    lines(store)
    assert sorted((path, path.stat().st_mtime_ns) for path in store.rglob("*")) == before


def test_a_path_that_is_not_a_directory_cannot_contain_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="not a directory"):
        lines(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be made"):
        lines(tmp_path / "file" / "store")


def test_an_open_store_is_reported_and_stays_locked(store: Path) -> None:
    lock = Disk().lock(str(store / "lock"))
    script = (
        "import sys; from broker.server.startup import main\n"
        f"sys.exit(main(['--check', '--store', {str(store)!r}]))"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == daemon.STATUS_LOCKED
        assert "another broker uses this store" in done.stderr
    lock.release()
    assert lines(store) == []


def test_lengths_are_compared_with_the_settings(store: Path) -> None:
    put(store, "commitlog/00000000000000000000", 4096)
    put(store, "commitlog/00000000000000004096", 4096)
    put(store, "consumequeue/T/0/00000000000000000000", 600)
    put(store, "index/20260101000000000", 40 + 5 * 4 + 10 * 20)
    sizes = {"max_hash_slot_num": 5, "max_index_num": 10}
    sizes_of_files = ["commitlog: 2 files of 4096 bytes", "consumequeue: 1 files of 600 bytes"]
    assert lines(store) == [
        *sizes_of_files,
        "index: 1 files of 260 bytes",
    ]  # defaults follow the existing files
    assert lines(store, mapped_file_size_commit_log=4096, **sizes)[:2] == sizes_of_files
    for wrong, key in (
        ({"mapped_file_size_commit_log": 8192}, "mappedFileSizeCommitLog"),
        ({"mapped_file_size_consume_queue": 620}, "mappedFileSizeConsumeQueue"),
        ({**sizes, "max_index_num": 9}, "maxIndexNum"),
    ):
        with pytest.raises(StoreError, match=key):
            lines(store, **wrong)


def test_files_that_the_start_repairs_are_reported(store: Path) -> None:
    put(store, "commitlog/00000000000000000000", 4096)
    put(store, "commitlog/00000000000000004096", 0)
    assert lines(store, mapped_file_size_commit_log=4096) == [
        f"{store}/commitlog/{4096:020}: 0 bytes long instead of 4096, the start repairs it",
        "commitlog: 2 files of 4096 bytes",
    ]
    (store / "abort").touch()
    first, *_ = lines(store, mapped_file_size_commit_log=4096)
    assert "recovers" in first


@pytest.mark.parametrize(
    "name",
    [
        "topicQueueMapping.json",
        "consumerFilter.json",
        "consumerOrderInfo.json",
        "messageRequestMode.json",
        "brokerRole.json",
    ],
)
def test_each_file_that_stops_the_start_is_checked(store: Path, name: str) -> None:
    (store / "config" / name).write_text("[1", encoding="utf-8")
    with pytest.raises(StoreError, match=name):
        lines(store)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "topicQueueMapping.json",
            '{"topicQueueMappingInfoMap":{"S":{"hostedQueues":{"0":[7]}}}}',
            "S: .*hostedQueues",
        ),
        ("consumerOrderInfo.json", '{"table":{"T@G":{"0":{"o":7}}}}', "T@G: invalid lists"),
        ("consumerOrderInfo.json", '{"table":{"T@G":{"0":{"i":"x"}}}}', "T@G: invalid values"),
        ("messageRequestMode.json", '{"messageRequestModeMap":{"T":7}}', "T: an object"),
        (
            "messageRequestMode.json",
            '{"messageRequestModeMap":{"T":{"G":{"mode":"PUSH"}}}}',
            "T@G: invalid values",
        ),
    ],
)
def test_an_entry_that_stops_the_start_is_an_error(
    store: Path, name: str, text: str, why: str
) -> None:
    (store / "config" / name).write_text(text)
    with pytest.raises(StoreError, match=f"{name}: .*{why}"):
        lines(store)


def test_offsets_of_light_queues_are_checked_if_the_start_reads_them(store: Path) -> None:
    (store / "config" / "lmqConsumerOffset.json").write_text("[1", encoding="utf-8")
    assert lines(store) == []
    with pytest.raises(StoreError, match=r"lmqConsumerOffset\.json"):
        lines(store, enable_lmq=True)


def test_misplaced_and_missing_log_files_are_named(tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put()
    made.write(spare=False)
    log = made.root / "commitlog"
    sizes = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 600}
    assert not [line for line in lines(made.root, **sizes) if "no file has" in line]
    lost = (log / f"{4096:020d}").rename(tmp_path / "lost")
    found = [line for line in lines(made.root, **sizes) if "no file has" in line]
    assert found == [
        f"{log}/{8192:020d}: no file has the 4096 bytes before it: their messages are lost"
    ]
    lost.rename(log / f"{1 << 40:020d}")
    with pytest.raises(StoreError, match="records are those of physical offset 4096"):
        lines(made.root, **sizes)
