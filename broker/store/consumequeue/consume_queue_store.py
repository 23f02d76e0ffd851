"""ConsumeQueueStore: all topics and their queues, by name and by the bytes in a record.

**Source:** RocketMQ ConsumeQueueStore.
"""

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from broker.common.topic import is_lmq_topic
from broker.errors import FileNameError, StoreError
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.consumequeue.consume_queue_ext import ConsumeQueueExt
from broker.store.format.consumequeue import BATCH_UNIT_SIZE, EXT_FILE_SIZE, UNIT_SIZE
from broker.store.format.state import parse_queue_id, wrong_type
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.logfile.mapped_file_limit import MappedFileLimit, max_mapped_files

_log = logging.getLogger(__name__)


class ConsumeQueueStore:
    """All topics and their queues.

    ``on_first_dirty`` is called when a queue becomes dirty while no other one is. ``folders`` and
    ``file_sizes`` are pairs: SimpleCQ queues, BatchCQ queues.
    """

    def __init__(self, disk: Disk, folders: tuple[str, str], file_sizes: tuple[int, int]) -> None:
        self.disk = disk
        self.folder, self.batch_folder = folders
        # Java rounds up to whole units.
        self.file_size = -(-file_sizes[0] // UNIT_SIZE) * UNIT_SIZE
        self.batch_file_size = -(-file_sizes[1] // BATCH_UNIT_SIZE) * BATCH_UNIT_SIZE
        self.topics: dict[str, Topic] = {}
        self.topics_by_data: dict[bytes, Topic] = {}
        self.lmq_count = 0
        # Shared by two threads without a lock: dispatch appends, the flushing thread pops.
        self.dirty: deque[ConsumeQueue] = deque()
        # Whether files of a queue are missing or too short: recovery must read the whole log then.
        self.incomplete = False
        self.on_first_dirty: Callable[[], None] | None = None
        # Called before the queues of a recreated topic are emptied, with the topic and the physical
        # offset of its first record.
        self.on_recreated: Callable[[str, int], None] = lambda topic, physical_offset: None
        # Folder and file length of extension units; ``ext_enabled``: new units get one.
        self.ext_folder = ""
        self.ext_file_size = EXT_FILE_SIZE
        self.ext_enabled = False
        self._loaded = False
        self.mapped_files = MappedFileLimit(max_mapped_files())

    def topic(self, name: str) -> Topic:
        """The topic with that name, created if it does not exist."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            self.topics_by_data[topic.data] = topic
            self.lmq_count += is_lmq_topic(name)
            topic.on_recreated = self.restart_topic
        return topic

    def restart_topic(self, restarted: ConsumeQueue, physical_offset: int) -> None:
        """Empty the queues of a topic that was deleted and recreated.

        The queue offsets of ``restarted`` are 0 again from this physical offset on. A queue whose
        first message was stored after the last one of ``restarted`` may be of the recreated topic:
        it is not emptied. If it is not, its next message, at offset 0, empties it. Nor is a queue
        that has units of later records, which recovery may have stored.
        OSError or StoreError if the deletion cannot be recorded; nothing is emptied then.
        """
        topic, old, last = restarted.topic, [], restarted.max_physical_offset
        end = physical_offset
        for queue in topic.queues.values():
            first = queue.unit(queue.min_offset)
            if queue is not restarted and first is not None and first[0] >= last:
                end = min(end, first[0])
            elif queue.max_physical_offset <= physical_offset:
                old.append(queue)
        self.on_recreated(topic.name, end)
        _log.info("%s: deleted and recreated, its queues restart", topic.name)
        for queue in old:
            queue.clear()

    def topic_of_data(self, data: bytes) -> Topic:
        """The topic with that encoded name, created if it does not exist."""
        topic = self.topics_by_data.get(data)
        return topic if topic is not None else self.topic(data.decode("utf-8", "replace"))

    def queue(self, topic: Topic, queue_id: int) -> ConsumeQueue:
        """A queue of a topic, created without files if it does not exist.

        FileNameError if the topic's name is not a valid folder name.
        """
        queue = topic.queues.get(queue_id)
        if queue is None:
            if not topic.usable:
                raise FileNameError(f"{topic.name!r:.80}: not the name of a topic")
            size = self.batch_file_size if topic.batch else self.file_size
            folder = self.folder_of(topic.name, queue_id)
            files = MappedFileQueue(
                self.disk, folder, size, reserve_ahead=True, limit=self.mapped_files
            )
            kind = BatchConsumeQueue if topic.batch else ConsumeQueue
            queue = topic.queues[queue_id] = kind(topic, queue_id, files, self._mark_dirty)
            if self._loaded:
                self._open_ext(queue)
        return queue

    def _open_ext(
        self, queue: ConsumeQueue, *, crashed: bool = False, notes: list[str] | None = None
    ) -> None:
        """Give a queue its extension units, if it may or does have some.

        Delivery times of delayed messages are never replaced by addresses.
        """
        topic = queue.topic
        if not self.ext_folder or topic.batch or topic.scheduled:
            return
        folder = os.path.join(self.ext_folder, topic.name, str(queue.queue_id))
        if self.ext_enabled or self.disk.exists(folder):
            limit = self.mapped_files
            queue.ext = ConsumeQueueExt(self.disk, folder, self.ext_file_size, limit)
            queue.load_ext(crashed=crashed, notes=notes if notes is not None else [])

    def load_ext(self, *, crashed: bool, notes: list[str]) -> None:
        """Open the extension units of all queues, once recovery has found their ends."""
        self._loaded = True
        if self.ext_enabled or self.disk.exists(self.ext_folder):
            for queue in self.all():
                self._open_ext(queue, crashed=crashed, notes=notes)
        elif self.ext_folder:
            self.ext_folder = ""  # no queue has any, and none will

    def folder_of(self, topic: str, queue_id: int) -> str:
        """Path of a queue's folder, which need not exist."""
        entry = self.topics.get(topic)
        base = self.batch_folder if entry is not None and entry.batch else self.folder
        return os.path.join(base, topic, str(queue_id))

    def set_batch_topics(self, names: Iterable[str]) -> None:
        """Declare topics as BatchCQ topics; a topic that has queues already keeps its kind."""
        for name in names:
            topic = self.topic(name)
            if not topic.queues:
                topic.batch = topic.special = True
            elif not topic.batch:
                _log.warning("%s: has plain queues; the next start makes them BatchCQ queues", name)

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """A queue, None if it does not exist."""
        entry = self.topics.get(topic)
        return entry.queues.get(queue_id) if entry is not None else None

    def all(self) -> Iterator[ConsumeQueue]:
        """All queues of all topics."""
        for topic in list(self.topics.values()):
            yield from list(topic.queues.values())

    def visit(self) -> Iterator[ConsumeQueue]:
        """All queues; each is unmapped after its turn, so that few are mapped at a time."""
        for queue in self.all():
            yield queue
            queue.release_mappings()

    def survey(
        self, *, crashed: bool = False, killed: bool = False, noted: tuple[int, int] = (0, 0)
    ) -> None:
        """Check every queue folder without changing it; StoreError if one cannot be loaded.

        ``noted``: file lengths from the manifest (SimpleCQ, BatchCQ), 0 if unknown. ``killed``:
        the process was killed but the kernel is the same; an empty file or folder then counts as
        missing files, since it may have had units.

        **Source:** RocketMQ ConsumeQueueStore#loadConsumeQueues, #loadBatchConsumeQueues.
        """
        for name, _ in self._folders(self.batch_folder):
            self.set_batch_topics([name])
        if self.ext_folder:
            list(self._folders(self.ext_folder))  # load_ext opens them: too late for a refusal
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
        """Load the queues that have a folder."""
        reported = notes if notes is not None else []
        if not any(queue.files.surveyed is not None for queue in self.all()):
            self.survey(crashed=crashed)
        for queue in self.visit():
            if queue.files.surveyed is not None:
                queue.load(crashed=crashed, notes=reported)

    def detect_file_size(self) -> int:
        """File length of SimpleCQ queues in bytes, the largest if they differ; 0: no files."""
        return self._size_below(self.folder)

    def detect_batch_file_size(self) -> int:
        """File length of BatchCQ queues in bytes, the largest if they differ; 0: no files."""
        return self._size_below(self.batch_folder)

    def _size_below(self, base: str) -> int:
        size = 0
        for topic_name, queue_id in self._folders(base):
            folder = os.path.join(base, topic_name, str(queue_id))
            size = max(size, MappedFileQueue(self.disk, folder, 1).detect_size())
        return size

    def _folders(self, base: str) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue folder below ``base``; StoreError for a file as one."""
        directory = os.path.basename(base)
        for topic_name in self._sub_folders(base, directory):
            folder = os.path.join(base, topic_name)
            for name in self._sub_folders(folder, os.path.join(directory, topic_name)):
                queue_id = parse_queue_id(name)
                if queue_id is not None:
                    yield topic_name, queue_id

    def _sub_folders(self, path: str, directory: str) -> Iterator[str]:
        """Names of the folders in ``path``, the ``directory`` of the store; StoreError as above."""
        for name, is_folder in self.disk.list(path):
            if is_folder:
                yield name
                continue
            entry = os.path.join(path, name)
            exists = self.disk.exists(entry)
            found = wrong_type(directory, name, is_file=exists, is_folder=False, exists=exists)
            if found is not None:
                raise StoreError(f"{entry}: {found.cause}", found.hint, path=entry)

    def max_physical_offset(self) -> int:
        """Largest physical end of a record that a queue refers to, -1 if no queue has units."""
        return max((queue.max_physical_offset for queue in self.all()), default=-1)

    def delete_topic(self, name: str) -> bool:
        """Remove a topic's queues; False if it is unknown. Its records stay in the log.

        Files that cannot be removed are left to the next start, which knows the deletion.
        """
        topic = self.topics.pop(name, None)
        if topic is None:
            return False
        self.topics_by_data.pop(topic.data, None)
        self.lmq_count -= is_lmq_topic(name)
        for queue in topic.queues.values():
            try:
                queue.destroy()
            except (OSError, StoreError) as error:
                _log.warning("%s: not removed: %s", queue.files.folder, error)
        topic.queues.clear()
        for base in filter(None, (self.folder, self.batch_folder, self.ext_folder)):
            self.disk.remove_folder(os.path.join(base, name))
        return True

    def sync(self, least_pages: int) -> None:
        """Flush the dirty queues that have at least ``least_pages`` dirty pages; 0 flushes all.

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

    def sync_before_delete(self, log_min: int) -> None:
        """Sync the units that cannot be rebuilt from the log once it starts at ``log_min``."""
        self._sync([queue for queue in self.all() if queue.exposed(log_min)])

    def _sync(self, queues: Iterable[ConsumeQueue]) -> None:
        """Sync queues; for new queues also the parent folders, up to the store's.

        Otherwise a power cut could remove a queue's folder together with its synced files.
        """
        new = []
        waiting = deque(queues)
        try:
            while waiting:
                waiting[0].sync()
                queue = waiting.popleft()
                if not queue.named:
                    new.append(queue)
            self._sync_folders(new)
        except BaseException:
            # The error may be temporary (no descriptor left): the next flush tries them again.
            for queue in (*new, *waiting):
                queue.dirty = True
                self.dirty.append(queue)
            raise

    def _sync_folders(self, new: "list[ConsumeQueue]") -> None:
        topics = {os.path.dirname(queue.files.folder) for queue in new}
        tables = set(map(os.path.dirname, topics))
        for folder in sorted({*topics, *tables, *map(os.path.dirname, tables)}, reverse=True):
            if self.disk.exists(folder):
                self.disk.sync_folder(folder)
        for queue in new:
            queue.named = True

    def close(self) -> None:
        """Close all files."""
        for queue in self.all():
            queue.close()

    def _mark_dirty(self, queue: ConsumeQueue) -> None:
        first = not self.dirty
        self.dirty.append(queue)
        if first and self.on_first_dirty is not None:
            self.on_first_dirty()
