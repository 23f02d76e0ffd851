"""Decide the queue type of topics: from topics.json, else from their records.

The attribute ``queue.type`` of a topic is in topics.json only, and the folder of its queues shows
it as well. If both are missing, an inner batch is the evidence: brokers store one in a BatchCQ
topic only, and count each of its messages in the queue offsets. A topic without an inner batch has
one queue offset per record in either type, so plain queues are correct for it.

**Source:** RocketMQ HookUtils#checkInnerBatch, QueueTypeUtils. Java builds plain queues, and does
not start with queues of another type than in topics.json.
"""

import os
from collections.abc import Collection, Iterable

from broker.common.topic import is_system_topic
from broker.errors import StoreError
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.recovery.store_manifest import StoreManifest
from broker.store.results import RecoveryReport


class QueueTypeResolver:
    """Decide the types of queues that recovery is about to build."""

    def __init__(
        self, queues: ConsumeQueueStore, manifest: StoreManifest, report: RecoveryReport
    ) -> None:
        self._queues = queues
        self._manifest = manifest
        self._report = report

    def configure(self, names: Collection[str]) -> None:
        """Declare the BatchCQ topics of topics.json; plain queues of one are removed and rebuilt.

        A slave has such queues if the topic was deleted, and created again with another type,
        before the slave copied the topics.
        """
        for name in names:
            topic = self._queues.topics.get(name)
            if topic is not None and topic.queues and not topic.batch:
                self._manifest.require_full_scan()
                self._queues.delete_topic(name)
                self._report.notes.append(f"{name}: plain queues of a BatchCQ topic are rebuilt")
        self._queues.set_batch_topics(names)

    def declare(self, inner_batches: Iterable[tuple[bytes, int]]) -> None:
        """Declare the topics of these (encoded topic, physical offset) as BatchCQ topics.

        Called if topics.json is missing.
        StoreError if a topic has plain queues on disk: they cannot be correct, and messages would
        be hidden. System topics (a delayed batch is stored in one) and retry topics stay plain.
        """
        decided: set[bytes] = set()
        for data, physical_offset in inner_batches:
            if data in decided:
                continue
            name = data.decode("utf-8", "replace")
            if is_system_topic(name) or name.startswith("%"):
                continue
            if self._manifest.is_deleted(name, physical_offset):
                continue
            decided.add(data)
            self._declare(name)

    def _declare(self, name: str) -> None:
        topic = self._queues.topic(name)
        if topic.batch or not topic.usable:
            return
        folder = os.path.join(self._queues.folder, name)
        if self._queues.disk.exists(folder):
            raise StoreError(
                f"{folder}: plain queues, but the log has inner batches of the topic, and"
                " topics.json is missing: the type of the queues cannot be decided",
                "restore config/topics.json; or, if the topic is a BatchCQ topic, move the folder"
                " away: its queues are rebuilt from the log",
                path=folder,
            )
        topic.queues.clear()  # without files: reading a record created them
        self._queues.set_batch_topics([name])
        self._report.notes.append(
            f"{name}: not configured; it has inner batches: BatchCQ queues are built"
        )

    def report_topics(self) -> None:
        """Report the BatchCQ topics, so that the broker can configure them again."""
        for topic in self._queues.topics.values():
            if topic.batch and topic.queues:
                self._report.batch_topics[topic.name] = max(topic.queues) + 1
