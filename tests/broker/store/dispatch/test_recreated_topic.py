"""A replica of the log of a topic that was deleted and recreated: the queues are the master's."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from broker.common import sysflag
from broker.store.format.consumequeue import is_ext_address
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from tests.support.log_copy import copy_log, queue_units
from tests.support.stores import Stores, make_inner

LIGHT = "%LMQ%light"
FILE_UNITS = 20


@pytest.fixture
def slaves(tmp_path: Path) -> Iterator[Stores]:
    made = Stores(tmp_path / "slave")
    yield made
    for store in list(made.open):
        made.close(store)


class Kind:
    """A kind of queue: how its store is configured, and a message for it."""

    def __init__(self, put: Callable[[int], MessageExtBrokerInner], **config: object) -> None:
        self.put = put
        self.config = config
        self.is_batch = False

    def open(self, stores: Stores) -> MessageStore:
        store = stores.load(stores.config(**self.config))
        self.declare(store)
        store.start()
        return store

    def declare(self, store: MessageStore) -> None:
        """As the broker does when it loads or creates the topic."""
        if self.is_batch:
            store.queue_table.set_batch_topics(["TopicA"])


def plain(number: int) -> MessageExtBrokerInner:
    return make_inner(body=b"%04d" % number, properties={"TAGS": f"t{number}", "KEYS": "k"})


def light(number: int) -> MessageExtBrokerInner:
    return make_inner("Parent", body=b"%04d" % number, properties={"INNER_MULTI_DISPATCH": LIGHT})


def inner_batch(number: int) -> MessageExtBrokerInner:
    return make_inner(
        body=b"%04d" % number, properties={"INNER_NUM": "3"}, sys_flag=sysflag.INNER_BATCH
    )


PLAIN = Kind(plain)
EXT = Kind(plain, enable_consume_queue_ext=True)
LIGHT_QUEUES = Kind(light, enable_multi_dispatch=True, enable_lmq=True)
RETRY = Kind(lambda number: make_inner("%RETRY%G", body=b"%04d" % number))
BATCH = Kind(inner_batch)
BATCH.is_batch = True
KINDS = pytest.mark.parametrize(
    "kind",
    [PLAIN, EXT, LIGHT_QUEUES, RETRY, BATCH],
    ids=["plain", "ext", "light", "retry", "batch"],
)


def put(store: MessageStore, kind: Kind, count: int) -> None:
    for number in range(count):
        assert store.put_message(kind.put(number)).physical_offset >= 0


def recreate(store: MessageStore, kind: Kind) -> None:
    assert store.delete_topics(["TopicA", "Parent", "%RETRY%G", LIGHT])
    kind.declare(store)


def write_topics(stores: Stores, kind: Kind) -> None:
    """As the slave's copy of the master's topics.json."""
    queue_type = '"attributes": {"queue.type": "BatchCQ"}, ' if kind.is_batch else ""
    folder = stores.root / "config"
    folder.mkdir(exist_ok=True)
    names = ("TopicA", "Parent", "%RETRY%G", LIGHT)
    table = ", ".join(f'"{name}": {{{queue_type}"topicName": "{name}"}}' for name in names)
    (folder / "topics.json").write_text(f'{{"topicConfigTable": {{{table}}}}}')


@KINDS
@pytest.mark.parametrize("read_log", [False, True])
@pytest.mark.parametrize("old", [3, 3 * FILE_UNITS + 5])
@pytest.mark.parametrize("new", [1, 5])
def test_a_recreated_topic_restarts_the_queues_of_a_replica(
    stores: Stores, slaves: Stores, kind: Kind, read_log: bool, old: int, new: int
) -> None:
    master, slave = kind.open(stores), kind.open(slaves)
    write_topics(slaves, kind)
    put(master, kind, old)
    copy_log(master, slave)
    assert queue_units(slave) == queue_units(master)
    recreate(master, kind)
    put(master, kind, new)
    copy_log(master, slave, read_log=read_log)
    assert queue_units(slave) == queue_units(master)
    put(master, kind, 3)
    copy_log(master, slave, read_log=read_log)
    expected = queue_units(master)
    assert queue_units(slave) == expected

    # The same queues come out of each kind of start, also without the files of the queues.
    slave = slaves.reopen(slave)
    assert queue_units(slave) == expected
    slaves.kill(slave)
    slave = kind.open(slaves)
    assert queue_units(slave) == expected
    slaves.close(slave)
    for folder in ("consumequeue", "batchconsumequeue"):
        shutil.rmtree(slaves.root / folder, ignore_errors=True)
    assert queue_units(kind.open(slaves)) == expected


@KINDS
@pytest.mark.parametrize("read_log", [False, True])
def test_a_kill_after_the_restart_of_the_queues_changes_nothing(
    stores: Stores, slaves: Stores, kind: Kind, read_log: bool
) -> None:
    """The manifest, written before, still has the end of the old queue."""
    master, slave = kind.open(stores), kind.open(slaves)
    write_topics(slaves, kind)
    put(master, kind, 30)
    copy_log(master, slave)
    slave.write_manifest()
    recreate(master, kind)
    put(master, kind, 2)
    copy_log(master, slave, read_log=read_log)
    slaves.kill(slave)
    slave = kind.open(slaves)
    assert queue_units(slave) == queue_units(master)
    put(master, kind, 2)
    copy_log(master, slave, read_log=read_log)
    assert queue_units(slave) == queue_units(master)


@KINDS
@pytest.mark.parametrize("read_log", [False, True])
def test_a_replica_that_starts_empty_follows_two_recreations_at_once(
    stores: Stores, slaves: Stores, kind: Kind, read_log: bool
) -> None:
    master, slave = kind.open(stores), kind.open(slaves)
    write_topics(slaves, kind)
    for count in (7, 2, 5):
        if master.queues():
            recreate(master, kind)
        put(master, kind, count)
    copy_log(master, slave, read_log=read_log)
    assert queue_units(slave) == queue_units(master)


def test_pulls_of_a_restarted_queue_get_the_new_messages_only(
    stores: Stores, slaves: Stores
) -> None:
    master, slave = PLAIN.open(stores), PLAIN.open(slaves)
    put(master, PLAIN, 30)
    copy_log(master, slave)
    assert slave.get_message("TopicA", 0, 0).message_count > 0
    recreate(master, PLAIN)
    put(master, PLAIN, 3)
    copy_log(master, slave)
    for offset in range(4):
        own, copy = (store.get_message("TopicA", 0, offset) for store in (master, slave))
        assert copy.status is own.status
        assert [bytes(one) for one in copy.buffers] == [bytes(one) for one in own.buffers]
        assert copy.max_offset == own.max_offset == 3


def test_the_files_of_the_old_queue_are_removed(stores: Stores, slaves: Stores) -> None:
    master, slave = PLAIN.open(stores), PLAIN.open(slaves)
    put(master, PLAIN, 3 * FILE_UNITS)
    copy_log(master, slave)
    folder = slaves.root / "consumequeue" / "TopicA" / "0"
    assert len(list(folder.iterdir())) == 3
    recreate(master, PLAIN)
    put(master, PLAIN, 1)
    copy_log(master, slave)
    assert [path.name for path in folder.iterdir()] == [f"{0:020d}"]


def test_a_record_that_is_dispatched_again_changes_nothing(stores: Stores) -> None:
    store = stores.start()
    put(store, PLAIN, 3)
    queue = store.queue_table.find("TopicA", 0)
    assert queue is not None
    before = queue_units(store)
    for offset, (physical_offset, size, code) in enumerate(before["TopicA", 0]):
        assert not queue.append(offset, physical_offset, size, code)
    assert queue_units(store) == before


@pytest.mark.parametrize("offset", [1, 2])
def test_only_offset_0_restarts_a_queue(stores: Stores, offset: int) -> None:
    """Another offset below the end may be corrupt: no checksum covers it."""
    store = stores.start()
    put(store, PLAIN, 3)
    queue = store.queue_table.find("TopicA", 0)
    assert queue is not None
    before = queue_units(store)
    assert not queue.append(offset, store.max_physical_offset, 100, 0)
    assert queue_units(store) == before


def test_each_unit_of_a_restarted_queue_has_an_extension_unit(
    stores: Stores, slaves: Stores
) -> None:
    master, slave = EXT.open(stores), EXT.open(slaves)
    put(master, EXT, 5)
    copy_log(master, slave)
    recreate(master, EXT)
    put(master, EXT, 3)
    copy_log(master, slave)
    queue = slave.queue_table.find("TopicA", 0)
    assert queue is not None
    codes = [code for _, _, code in queue.read_raw(0, 10)]
    assert [is_ext_address(code) for code in codes] == [True, True, True]


class SyncDisk(Disk):
    """Runs ``during_sync`` once, within the next sync of a file."""

    def __init__(self) -> None:
        self.during_sync: list[Callable[[], None]] = []

    def sync_data(self, fd: int) -> None:
        super().sync_data(fd)
        while self.during_sync:
            self.during_sync.pop()()


@pytest.mark.parametrize("kind", [PLAIN, BATCH], ids=["plain", "batch"])
def test_a_sync_during_the_restart_of_a_queue_does_not_count_for_its_new_units(
    stores: Stores, slaves: Stores, kind: Kind
) -> None:
    """The flushing thread syncs files of the old queue while dispatch fills the new one."""
    master, disk = kind.open(stores), SyncDisk()
    slave = slaves.load(disk=disk)
    kind.declare(slave)
    write_topics(slaves, kind)
    put(master, kind, 2 * FILE_UNITS)
    copy_log(master, slave)
    recreate(master, kind)
    put(master, kind, 3)
    queue = slave.queue_table.find("TopicA", 0)
    assert queue is not None
    disk.during_sync.append(partial(copy_log, master, slave))
    slave.queue_table.sync(0)
    assert queue_units(slave) == queue_units(master)
    assert queue.exposed(slave.max_physical_offset)
    slave.queue_table.sync(0)
    assert not queue.exposed(slave.max_physical_offset)
