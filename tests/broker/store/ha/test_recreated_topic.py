"""A slave that did not see the deletion of a topic gets records of the topic created again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.message.record import scan_records
from broker.store.ha.received_records import ReceivedRecords
from broker.store.message_store import MessageStore
from tests.support.stores import Stores, check_store, make_inner

QUEUES = 3
OLD = [[b"old-1", b"old-2", b"old-3"], [b"old-0"], []]
NEW = [[b"new-1", b"new-2"], [], [b"new-0"]]


class Pair:
    """A master, and a slave that copies its log when asked; ``parsed`` as by :meth:`copy`."""

    def __init__(self, folder: Path, *, parsed: bool, batch: bool) -> None:
        self.parsed = parsed
        self.batch_topics = ["TopicA"] if batch else []
        self.masters, self.slaves = Stores(folder / "master"), Stores(folder / "slave")
        self.master = self.masters.start()
        self.slave = self.slaves.start()
        for store in (self.master, self.slave):
            store.queue_table.set_batch_topics(self.batch_topics)

    def copy(self) -> None:
        """Append the bytes that the slave lacks and dispatch them.

        ``parsed``: with the records, as a connection does; without them dispatch reads the log.
        """
        source, slave = self.master.log, self.slave
        while (start := slave.max_physical_offset) < source.max_offset:
            file = source.files.find(start)
            assert file is not None
            data = bytes(file.view[start - file.start : file.written])
            valid = ReceivedRecords(start, source.file_size, 100_000).feed(start, data)
            assert valid is not None
            records = valid.records if self.parsed else ()
            slave.writer.append_replica(valid.data, start, valid.store_timestamp, records)
        slave.dispatch()

    def put(self, queues: list[list[bytes]]) -> None:
        """Put the messages in the order of their bodies."""
        for body, queue_id in sorted((body, n) for n, queue in enumerate(queues) for body in queue):
            self.master.put_message(make_inner("TopicA", queue_id, body))
        self.master.dispatch()

    def recreate(self) -> None:
        """Delete the topic at the master; its next message creates it again."""
        self.master.delete_topics(["TopicA"])
        self.master.queue_table.set_batch_topics(self.batch_topics)

    def restart_slave(self, *, killed: bool) -> None:
        (self.slaves.kill if killed else self.slaves.close)(self.slave)
        self.slave = self.slaves.start(self.slave.config)


@pytest.fixture(params=["parsed", "read", "parsed batch", "read batch"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, parsed="parsed" in request.param, batch="batch" in request.param)
    yield made
    for stores in (made.masters, made.slaves):
        for store in list(stores.open):
            stores.close(store)


def bodies(store: MessageStore) -> list[list[bytes]]:
    """The bodies that a consumer gets from each queue, from offset 0 on."""
    found = []
    for queue_id in range(QUEUES):
        end = store.get_max_offset("TopicA", queue_id)
        buffers = store.get_message("TopicA", queue_id, 0).buffers if end else []
        found.append([message.body for message in scan_records(b"".join(buffers))])
        assert len(found[-1]) == end
    return found


def test_the_slave_has_the_messages_of_the_new_topic_only(pair: Pair) -> None:
    pair.put(OLD)
    pair.copy()
    assert bodies(pair.slave) == OLD
    pair.recreate()
    pair.put(NEW)
    pair.copy()
    assert bodies(pair.slave) == bodies(pair.master) == NEW
    check_store(pair.slave)
    for killed in (False, True, True):
        pair.restart_slave(killed=killed)
        assert bodies(pair.slave) == NEW
        check_store(pair.slave)


def test_the_first_new_message_may_be_in_a_queue_that_had_none(pair: Pair) -> None:
    pair.put([[b"old-0", b"old-1"], [], []])
    pair.copy()
    pair.recreate()
    pair.put([[], [], [b"new-0"]])
    pair.copy()
    for part in ([[b"new-1"], [], []], [[], [b"new-2"], [b"new-3"]]):
        pair.put(part)
        pair.copy()
        assert bodies(pair.slave) == bodies(pair.master)
    for killed in (False, True):
        pair.restart_slave(killed=killed)
        assert bodies(pair.slave) == bodies(pair.master)


def test_a_queue_that_began_last_is_emptied_by_its_next_message(pair: Pair) -> None:
    """Until then it could be a queue of the new topic, whose messages must not be hidden."""
    pair.put([[b"old-0"], [b"old-1"], []])
    pair.copy()
    pair.recreate()
    pair.put([[b"new-0"], [], []])
    pair.copy()
    assert bodies(pair.slave) == [[b"new-0"], [b"old-1"], []]
    pair.put([[], [b"new-1"], []])
    pair.copy()
    assert bodies(pair.slave) == bodies(pair.master) == [[b"new-0"], [b"new-1"], []]
    pair.restart_slave(killed=True)
    assert bodies(pair.slave) == bodies(pair.master)


def test_all_of_it_may_arrive_at_once(pair: Pair) -> None:
    for _ in range(3):
        pair.put(OLD)
        pair.recreate()
    pair.put(NEW)
    pair.copy()
    assert bodies(pair.slave) == NEW
    pair.restart_slave(killed=True)
    assert bodies(pair.slave) == NEW


def test_the_queues_continue_and_may_be_recreated_again(pair: Pair) -> None:
    for bodies_sent in (OLD, NEW, OLD):
        pair.recreate()
        pair.put(bodies_sent)
        pair.copy()
        assert bodies(pair.slave) == bodies_sent
    pair.put(NEW)
    pair.copy()
    both = [first + second for first, second in zip(OLD, NEW, strict=True)]
    assert bodies(pair.slave) == both
    pair.restart_slave(killed=True)
    assert bodies(pair.slave) == both


def test_queues_of_several_files_are_emptied(pair: Pair) -> None:
    many = [[b"old-1"] * 70, [b"old-0"], []]  # 20 units per file
    pair.put(many)
    pair.copy()
    pair.recreate()
    pair.put(NEW)
    pair.copy()
    assert bodies(pair.slave) == NEW
    pair.restart_slave(killed=True)
    assert bodies(pair.slave) == NEW


def test_other_topics_keep_their_messages(pair: Pair) -> None:
    pair.master.put_message(make_inner("TopicB", 0, b"kept"))
    pair.put(OLD)
    pair.copy()
    pair.recreate()
    pair.put(NEW)
    pair.copy()
    pair.restart_slave(killed=True)
    assert pair.slave.get_max_offset("TopicB", 0) == 1
    assert bodies(pair.slave) == NEW


def test_a_manifest_that_cannot_be_written_delays_the_dispatch(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.put(OLD)
    pair.copy()
    pair.recreate()
    pair.put(NEW)

    def full(*_: object) -> None:
        raise StoreError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(pair.slave.queue_table, "on_recreated", full)
        pair.copy()
        assert bodies(pair.slave)[:2] == OLD[:2]
    pair.slave.dispatch()
    assert bodies(pair.slave) == NEW
