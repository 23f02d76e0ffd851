"""The table of topics and queues: found by name and by bytes, loaded, deleted, flushed."""

import os
import weakref

import pytest

from broker.errors import StoreError
from broker.store.consumequeue import consume_queue_store
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.logfile.disk import Disk


@pytest.fixture
def make(tmp_path):
    made = []

    def new(disk=None):
        folders = str(tmp_path / "consumequeue"), str(tmp_path / "batchconsumequeue")
        table = ConsumeQueueStore(disk or Disk(), folders, (190, 100))
        made.append(table)
        return table

    yield new
    for table in made:
        table.close()


def test_file_sizes_are_whole_units(make):
    table = make()
    assert (table.file_size, table.batch_file_size) == (200, 138)


def test_topics_by_name_and_by_bytes(make):
    table = make()
    topic = table.topic("Tüpic")
    assert table.topic("Tüpic") is topic
    assert table.topic_of_data("Tüpic".encode()) is topic
    assert table.topic_of_data(b"new").name == "new"


def test_queues_are_loaded_again(make, tmp_path):
    table = make()
    for queue_id in (0, 7):
        table.queue(table.topic("A"), queue_id).append(0, 100, 10, 1)
    table.set_batch_topics(["B"])
    table.queue(table.topic("B"), 1).append(0, 200, 10, 1)
    (tmp_path / "consumequeue" / "A" / "notaqueue").mkdir()
    (tmp_path / "consumequeue" / ".stray").write_text("x")
    table.close()
    again = make()
    again.load()
    assert {(q.topic.name, q.queue_id, q.max_offset) for q in again.all()} == {
        ("A", 0, 1),
        ("A", 7, 1),
        ("B", 1, 1),
    }
    assert isinstance(again.find("B", 1), BatchConsumeQueue)
    assert again.find("A", 1) is None
    assert again.max_physical_offset() == 210
    assert again.detect_file_size() == 200
    assert again.detect_batch_file_size() == 138


def test_a_topic_in_both_folders_is_an_error(make, tmp_path):
    for kind in ("consumequeue", "batchconsumequeue"):
        (tmp_path / kind / "A" / "0").mkdir(parents=True)
    with pytest.raises(StoreError):
        make().load()


def test_delete_topic(make, tmp_path):
    table = make()
    table.queue(table.topic("A"), 0).append(0, 100, 10, 1)
    assert table.delete_topic("A") is True
    assert table.delete_topic("A") is False
    assert not (tmp_path / "consumequeue" / "A").exists()
    assert table.topic_of_data(b"A").queues == {}


def test_names_that_cannot_be_folders_get_no_queue(make):
    table = make()
    with pytest.raises(StoreError):
        table.queue(table.topic("../up"), 0)


def test_flush_by_pages_and_of_everything(make):
    table = make()
    first = []
    table.on_first_dirty = lambda: first.append(1)
    for name in "AB":
        table.queue(table.topic(name), 0).append(0, 100, 10, 1)
    assert first == [1]
    table.sync(1)
    assert len(table.dirty) == 2
    table.sync(0)
    assert not table.dirty
    assert not table.find("A", 0).dirty


class MappingDisk(Disk):
    """Remembers which mappings of ConsumeQueue files are alive."""

    def __init__(self):
        super().__init__()
        self.mapped = weakref.WeakValueDictionary()

    def map(self, fd, length):
        mapping = super().map(fd, length)
        if "consumequeue/" in os.readlink(f"/proc/self/fd/{fd}"):
            self.mapped[id(mapping)] = mapping
        return mapping


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_queues_are_unmapped_after_the_start_and_mapped_by_use(stores, inner, stop):
    """Each mapping costs a descriptor before Python 3.13."""
    store = stores.start()
    for number in range(20):
        store.put_message(inner("TopicA", number, body=b"%d" % number))
    (stores.close if stop == "clean" else stores.kill)(store)
    disk = MappingDisk()
    store = stores.start(disk=disk)
    assert len(disk.mapped) == 0
    assert store.get_message("TopicA", 3, 0, 32).message_count == 1
    store.put_message(inner("TopicA", 5, body=b"more"))
    assert len(disk.mapped) == 2
    assert store.get_message("TopicA", 5, 0, 32).message_count == 2
    for _ in store.reput.queues.visit():
        pass
    assert len(disk.mapped) == 0
    store.put_message(inner("TopicA", 3, body=b"more"))
    assert store.get_message("TopicA", 3, 0, 32).message_count == 2


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("most", [1, 3, 100])
def test_more_files_than_may_be_mapped(make, monkeypatch, rng, most):
    """Units of many queues in turn: all are read back, and few files are mapped at any time."""
    monkeypatch.setattr(consume_queue_store, "max_mapped_files", lambda: most)
    disk = MappingDisk()
    table = make(disk)
    table.set_batch_topics(["B"])
    queues = [table.queue(table.topic(name), number) for name in "AB" for number in range(6)]
    expected = {queue: [] for queue in queues}

    end = 0
    for _ in range(400):
        queue = rng.choice(queues)
        size = rng.randrange(1, 50)
        if queue.topic.batch:
            queue.append_batch(queue.max_offset, end, size, 7, (1, 1))
            expected[queue].append((end, size, 7))
        elif rng.random() < 0.5:
            queue.ensure_capacity(queue.max_offset)
            queue.append(queue.max_offset, end, size, 7)
            expected[queue].append((end, size, 7))
        else:
            units = [(end, 1, number) for number in range(rng.randrange(1, 25))]
            queue.append_units(b"".join(UNIT_STRUCT.pack(*unit) for unit in units), end + 1)
            expected[queue] += units
        end += size
        assert len(disk.mapped) <= most
        other = rng.choice(queues)
        assert [other.unit(number) for number in range(other.max_offset)] == expected[other]
        assert len(disk.mapped) <= most
    for queue in queues:
        assert [queue.unit(number) for number in range(queue.max_offset)] == expected[queue]
