"""ConsumeQueueTable: all topics and their queues, by name and by the bytes in a record.

**Source:** RocketMQ ConsumeQueueStore.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from broker.errors import StoreError
from broker.store.batchqueue import BatchConsumeQueue
from broker.store.consumequeue import ConsumeQueue, Topic
from broker.store.files import Disk
from broker.store.format.consumequeue import BATCH_UNIT_SIZE, UNIT_SIZE
from broker.store.mapped_file import MappedFileQueue


class ConsumeQueueTable:
    """All topics and their queues; ``on_first_dirty`` is called when one comes to need a flush.

    ``folders`` and ``file_sizes`` are those of ordinary queues and of batch queues.
    """

    def __init__(self, disk: Disk, folders: tuple[str, str], file_sizes: tuple[int, int]) -> None:
        self.disk = disk
        self.folder, self.batch_folder = folders
        # Java rounds up to whole units.
        self.file_size = -(-file_sizes[0] // UNIT_SIZE) * UNIT_SIZE
        self.batch_file_size = -(-file_sizes[1] // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
        self.topics: dict[str, Topic] = {}
        self.topics_by_data: dict[bytes, Topic] = {}
        # Two threads work on it: dispatch adds, the flushing thread takes away.
        self.dirty: deque[ConsumeQueue] = deque()
        # Whether files of a queue were found missing or short: all of the log must be read then.
        self.incomplete = False
        self.on_first_dirty: Callable[[], None] | None = None

    def topic(self, name: str) -> Topic:
        """The topic of that name, made if it is new."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            self.topics_by_data[topic.data] = topic
        return topic

    def topic_of_data(self, data: bytes) -> Topic:
        """The topic of a record's bytes."""
        topic = self.topics_by_data.get(data)
        return topic if topic is not None else self.topic(data.decode("utf-8", "replace"))

    def queue(self, topic: Topic, queue_id: int) -> ConsumeQueue:
        """A queue of a topic, made (without files) if it is new."""
        queue = topic.queues.get(queue_id)
        if queue is None:
            if not topic.usable:
                raise StoreError(f"{topic.name!r}: no topic can have this name")
            size = self.batch_file_size if topic.batch else self.file_size
            files = MappedFileQueue(self.disk, self.folder_of(topic.name, queue_id), size)
            kind = BatchConsumeQueue if topic.batch else ConsumeQueue
            queue = topic.queues[queue_id] = kind(topic, queue_id, files, self._mark_dirty)
        return queue

    def folder_of(self, topic: str, queue_id: int) -> str:
        """Path of a queue's folder, whether it is there or not."""
        entry = self.topics.get(topic)
        base = self.batch_folder if entry is not None and entry.batch else self.folder
        return os.path.join(base, topic, str(queue_id))

    def set_batch_topics(self, names: Iterable[str]) -> None:
        """Topics whose queues are of the batch kind; one that has queues already keeps its kind."""
        for name in names:
            topic = self.topic(name)
            if not topic.queues:
                topic.batch = topic.special = True

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue that exists, None otherwise."""
        entry = self.topics.get(topic)
        return entry.queues.get(queue_id) if entry is not None else None

    def all(self) -> Iterator[ConsumeQueue]:
        """Every queue."""
        for topic in list(self.topics.values()):
            yield from list(topic.queues.values())

    def survey(
        self, *, crashed: bool = False, killed: bool = False, noted: tuple[int, int] = (0, 0)
    ) -> None:
        """Look at every queue folder, change nothing; StoreError for what cannot be loaded.

        ``noted`` are the lengths that files are known to have had, 0 where that is not known.
        After a kill alone (``killed``) an empty file or folder may have held units.

        **Source:** RocketMQ ConsumeQueueStore#loadConsumeQueues, #loadBatchConsumeQueues.
        """
        for name, _ in self._folders(self.batch_folder):
            self.set_batch_topics([name])
        for base, size, was in zip(
            (self.folder, self.batch_folder),
            (self.file_size, self.batch_file_size),
            noted,
            strict=True,
        ):
            known = size == was
            queues = []
            for topic_name, queue_id in self._folders(base):
                topic = self.topic(topic_name)
                if topic.batch != (base == self.batch_folder):
                    raise StoreError(
                        f"{topic_name}: has folders below {self.folder} and {self.batch_folder}",
                        "a topic's queues are of one kind (topic attribute queue.type)",
                        path=os.path.join(base, topic_name),
                    )
                queue = self.queue(topic, queue_id)
                queues.append(queue)
                known = known or queue.files.detect_size() == size
            for queue in queues:
                queue.files.survey(crashed=crashed, known=known)
                hollow = killed and queue.files.hollow
                self.incomplete = self.incomplete or queue.files.broken or hollow

    def load(self, *, crashed: bool = False, notes: list[str] | None = None) -> None:
        """Open the queues that have a folder."""
        told = notes if notes is not None else []
        if not any(queue.files.surveyed is not None for queue in self.all()):
            self.survey(crashed=crashed)
        for queue in list(self.all()):
            if queue.files.surveyed is not None:
                queue.load(crashed=crashed, notes=told)

    def detect_file_size(self) -> int:
        """Length that the files of ordinary queues have, the largest if they differ; 0: none."""
        return self._size_below(self.folder)

    def detect_batch_file_size(self) -> int:
        """Length that the files of batch queues have, the largest if they differ; 0: none."""
        return self._size_below(self.batch_folder)

    def _size_below(self, base: str) -> int:
        size = 0
        for topic_name, queue_id in self._folders(base):
            folder = os.path.join(base, topic_name, str(queue_id))
            size = max(size, MappedFileQueue(self.disk, folder, 1).detect_size())
        return size

    def _folders(self, base: str) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue folder below ``base``."""
        for topic_name, is_folder in self.disk.list(base):
            if is_folder:
                for name, is_queue in self.disk.list(os.path.join(base, topic_name)):
                    if is_queue and name.isdigit():
                        yield topic_name, int(name)

    def max_physical_offset(self) -> int:
        """End of the newest record that any queue knows, -1 if none does."""
        return max((queue.max_physical_offset for queue in self.all()), default=-1)

    def delete_topic(self, name: str) -> bool:
        """Remove a topic's queues; its records stay in the log until their files expire."""
        topic = self.topics.pop(name, None)
        if topic is None:
            return False
        self.topics_by_data.pop(topic.data, None)
        for queue in topic.queues.values():
            queue.destroy()
        topic.queues.clear()
        for base in (self.folder, self.batch_folder):
            self.disk.remove_folder(os.path.join(base, name))
        return True

    def sync(self, least_pages: int) -> None:
        """Flush the dirty queues that have at least so many dirty pages; 0 flushes all.

        **Source:** RocketMQ FlushConsumeQueueService.
        """
        queues = []
        for _ in range(len(self.dirty)):
            queue = self.dirty.popleft()
            if least_pages == 0 or queue.dirty_pages() >= least_pages:
                queues.append(queue)
            else:
                self.dirty.append(queue)
        self._sync(queues)

    def secure(self, log_min: int) -> None:
        """Sync the units that nothing could rebuild once the log begins at ``log_min``."""
        self._sync([queue for queue in self.all() if queue.exposed(log_min)])

    def _sync(self, queues: Iterable[ConsumeQueue]) -> None:
        """Sync queues, and the folders on the way to those that are new.

        A power cut could take the folder of a queue away with all that is synced below it.
        """
        new = []
        for queue in queues:
            queue.sync()
            if not queue.named:
                new.append(queue)
        topics = {os.path.dirname(queue.files.folder) for queue in new}
        for folder in sorted({*topics, *map(os.path.dirname, topics)}, reverse=True):
            if self.disk.exists(folder):
                self.disk.sync_folder(folder)
        for queue in new:
            queue.named = True

    def close(self) -> None:
        """Let go of all files."""
        for queue in self.all():
            queue.close()

    def _mark_dirty(self, queue: ConsumeQueue) -> None:
        first = not self.dirty
        self.dirty.append(queue)
        if first and self.on_first_dirty is not None:
            self.on_first_dirty()
