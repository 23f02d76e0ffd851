"""The broker's tables in ``config/``: read at start, written after changes.

Topics and groups are written after every change, many changes at a time (:class:`TableWriter`);
offsets are written on a timer. Each file keeps its format (4.9 or 5.x) and its unknown fields.

**Source:** RocketMQ ConfigManager#load, #persist.
"""

import logging
import os
from typing import TYPE_CHECKING, Protocol

import msgspec

from broker.common.topic import TopicConfig, is_lmq_topic
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.server.static_topic.mapping_table import decode_mappings
from broker.server.tables.config_loader import CheckedDecoder, load_config
from broker.server.tables.progress_writer import ProgressWriter
from broker.server.tables.subscription_group import GroupEntry
from broker.server.tables.table_writer import (
    CallSoon,
    Job,
    RunJob,
    TableWriter,
    run_at_once,
    run_in_place,
)
from broker.store.config_file import ConfigFile
from broker.store.format import config as files
from broker.store.logfile.disk import Disk

if TYPE_CHECKING:
    from broker.server.filter.consumer_filter import ConsumerFilterManager
    from broker.server.schedule import ScheduleMessageService
    from broker.server.static_topic.mapping_table import TopicQueueMappingManager
    from broker.server.tables.consumer_offset import ConsumerOffsetManager
    from broker.server.tables.subscription_group import SubscriptionGroupManager
    from broker.server.tables.topic_config import TopicConfigManager
    from broker.store.message_store import MessageStore

log = logging.getLogger("broker.server")


class PersistentTables(Protocol):
    """The tables that ``config/`` contains, and the store whose log they refer to."""

    topics: "TopicConfigManager"
    mappings: "TopicQueueMappingManager"
    groups: "SubscriptionGroupManager"
    offsets: "ConsumerOffsetManager"
    filters: "ConsumerFilterManager"
    delays: "ScheduleMessageService | None"
    store: "MessageStore"


class ConfigStore:
    """The files of this role, in the ``config`` directory of the store.

    With LMQ enabled, consumer offsets are in lmqConsumerOffset.json. If that file does not exist
    yet, they are read from consumerOffset.json, and the first write creates it.

    **Source:** RocketMQ LmqConsumerOffsetManager.
    """

    def __init__(
        self,
        root: str,
        disk: Disk,
        *,
        lmq_enabled: bool = False,
        soon: CallSoon = run_at_once,
        run: RunJob = run_in_place,
    ) -> None:
        folder = os.path.join(root, "config")
        self._lmq_enabled = lmq_enabled
        self._topics = ConfigFile(os.path.join(folder, files.TOPICS), disk)
        self._mappings = ConfigFile(os.path.join(folder, files.TOPIC_QUEUE_MAPPING), disk)
        self._groups = ConfigFile(os.path.join(folder, files.SUBSCRIPTION_GROUP), disk)
        self._plain_offsets = ConfigFile(os.path.join(folder, files.CONSUMER_OFFSET), disk)
        self._lmq_offsets = ConfigFile(os.path.join(folder, files.LMQ_CONSUMER_OFFSET), disk)
        self._offsets = self._lmq_offsets if lmq_enabled else self._plain_offsets
        self._delays = ConfigFile(os.path.join(folder, files.DELAY_OFFSET), disk)
        self._filters = ConfigFile(os.path.join(folder, files.CONSUMER_FILTER), disk)
        self._topics_seen = files.TopicsFile()
        self._groups_seen = files.SubscriptionGroupFile()
        self._offsets_seen = files.ConsumerOffsetFile()
        self._delays_seen = files.DelayOffsetFile()
        self._decode_topics = CheckedDecoder(files.decode_topics)
        self._decode_groups = CheckedDecoder(files.decode_subscription_group)
        self._decode_offsets = CheckedDecoder(files.decode_consumer_offset)
        self._call_soon = soon
        self._run = run
        self.progress = ProgressWriter(run)

    def load(self, tables: PersistentTables) -> None:
        """Fill the tables and write them from now on whenever they change.

        StoreError when a file and its backup are both unreadable.
        """
        topics = load_config(self._topics, self._decode_topics.load)
        if topics is not None:
            self._topics_seen = topics
            tables.topics.load(topics.topics, topics.data_version)
        mappings = load_config(self._mappings, decode_mappings)
        if mappings is not None:
            tables.mappings.load(mappings)
        groups = load_config(self._groups, self._decode_groups.load)
        if groups is not None:
            self._groups_seen = groups
            tables.groups.load(groups.groups, groups.forbidden, groups.data_version)
        offsets = load_config(self._offsets, self._decode_offsets.load)
        if offsets is None and self._lmq_enabled:
            offsets = load_config(self._plain_offsets, files.decode_consumer_offset)
        if offsets is not None:
            self._offsets_seen = offsets
            light = {key: {0: offset} for key, offset in (offsets.lmq_offsets or {}).items()}
            tables.offsets.load({**offsets.offsets, **light}, offsets.data_version)
        filters = load_config(self._filters, _decode_filters)
        if filters is not None:
            tables.filters.load(filters)
        self.attach(tables)

    def attach(self, tables: PersistentTables) -> None:
        """Write topics and groups from now on whenever they change, progress when requested."""
        tables.offsets.writer = self.progress
        self.progress.sources.append(
            lambda offsets, delays: self.snapshot_progress(tables, offsets=offsets, delays=delays)
        )
        topics = tables.topics.writer = TableWriter[TopicConfig | None](
            lambda: self._topics_job(tables),
            tables.topics.restore,
            lambda error: log.error("%s: not written: %s", self._topics.path, error),
            soon=self._call_soon,
            run=self._run,
        )
        mappings = tables.mappings.writer = TableWriter[TopicQueueMappingDetail | None](
            lambda: self._mappings_job(tables),
            tables.mappings.restore,
            lambda error: log.error("%s: not written: %s", self._mappings.path, error),
            soon=self._call_soon,
            run=self._run,
        )
        groups = tables.groups.writer = TableWriter[GroupEntry](
            lambda: self._groups_job(tables),
            tables.groups.restore,
            lambda error: log.error("%s: not written: %s", self._groups.path, error),
            soon=self._call_soon,
            run=self._run,
        )
        # Loaded from the backup: write the file again, even without a change.
        if self._topics.backup_counts:
            topics.changed({})
        if self._mappings.backup_counts:
            mappings.changed({})
        if self._groups.backup_counts:
            groups.changed({})

    def check(self) -> None:
        """Check that all files are readable, before any other file of the store is opened.

        StoreError for the first unreadable file.
        """
        load_config(self._topics, self._decode_topics.check, report=False)
        load_config(self._mappings, decode_mappings, report=False)
        load_config(self._groups, self._decode_groups.check, report=False)
        load_config(self._offsets, self._decode_offsets.check, report=False)
        load_config(self._delays, files.decode_delay_offset, report=False)
        load_config(self._filters, _decode_filters, report=False)

    def load_delays(self, tables: PersistentTables) -> None:
        """Fill the delay offsets; called after the store is open, because its queues bound them."""
        delays = load_config(self._delays, files.decode_delay_offset)
        if delays is not None and tables.delays is not None:
            self._delays_seen = delays
            tables.delays.load(delays.offsets, delays.data_version)

    def _topics_job(self, tables: PersistentTables) -> Job:
        table = tables.topics
        content = msgspec.structs.replace(
            self._topics_seen, data_version=table.data_version.to_file(), topics=dict(table.configs)
        )
        return lambda: self._topics.persist(files.encode_topics(content))

    def _mappings_job(self, tables: PersistentTables) -> Job:
        content = tables.mappings.to_file()
        return lambda: self._mappings.persist(files.encode_config(content))

    def _groups_job(self, tables: PersistentTables) -> Job:
        table = tables.groups
        content = msgspec.structs.replace(
            self._groups_seen,
            data_version=table.data_version.to_file(),
            groups=dict(table.configs),
            forbidden={group: dict(topics) for group, topics in table.forbidden.items()},
        )
        return lambda: self._groups.persist(files.encode_subscription_group(content))

    def save_progress(self, tables: PersistentTables) -> bool:
        """Write consumerOffset.json and delayOffset.json if they changed; True if any did."""
        job = self.snapshot_progress(tables)
        if job is None:
            return False
        job()
        return True

    def snapshot_progress(
        self, tables: PersistentTables, *, offsets: bool = True, delays: bool = True
    ) -> Job | None:
        """Return the job of :meth:`save_progress` for another thread; None if nothing changed.

        Encoding and syncing a large offset table would block the event loop too long, so the job
        works on a copy. The caller must not run two jobs at once. The job first flushes the log up
        to its end at this call (:class:`FlushBarrier`). If the job fails, its tables are marked as
        changed again.
        """
        written = (
            tables.offsets if offsets else None,
            tables.delays if delays else None,
            tables.filters if offsets else None,
        )
        changed = [table for table in written if table is not None and table.changed]
        jobs = [
            self._offsets_job(tables) if offsets else None,
            self._delays_job(tables) if delays else None,
            self._filters_job(tables) if offsets else None,
        ]
        if not changed:
            return None
        write = tables.store.flush_barrier.before(
            lambda: [job() for job in jobs if job is not None]
        )

        def run() -> None:
            try:
                write()
            except BaseException:
                for table in changed:
                    table.changed = True
                raise

        return run

    def _offsets_job(self, tables: PersistentTables) -> Job | None:
        offsets = tables.offsets
        if not offsets.changed:
            return None
        offsets.changed = False
        seen = self._offsets_seen
        table, light = offsets.snapshot(), seen.lmq_offsets
        if self._lmq_enabled:
            light = {
                key: table.pop(key).get(0, 0)
                for key in list(table)
                if is_lmq_topic(files.split_topic_group(key)[1])
            }
        content = msgspec.structs.replace(
            seen,
            data_version=None if seen.data_version is None else offsets.data_version.to_file(),
            offsets=table,
            group_topics=None,
            lmq_offsets=light,
        )
        return lambda: self._offsets.persist(files.encode_consumer_offset(content))

    def _delays_job(self, tables: PersistentTables) -> Job | None:
        delays = tables.delays
        if delays is None or not delays.changed:
            return None
        delays.changed = False
        seen = self._delays_seen
        content = msgspec.structs.replace(
            seen,
            data_version=None if seen.data_version is None else delays.data_version.to_file(),
            offsets=dict(delays.offsets),
            compact=False,
        )
        return lambda: self._delays.persist(files.encode_delay_offset(content))

    def _filters_job(self, tables: PersistentTables) -> Job | None:
        filters = tables.filters
        if not filters.changed:
            return None
        content = filters.to_file()
        filters.changed = False
        return lambda: self._filters.persist(files.encode_config(content))


def _decode_filters(text: str) -> files.ConfigFile:
    return files.decode_config(files.CONSUMER_FILTER, text)
