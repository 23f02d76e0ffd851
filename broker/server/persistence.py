"""The broker's tables in ``config/``: read at start, written when they have changed.

Topics and groups are written at every change, before it is answered; offsets on a timer. Each
file keeps its dialect (4.9 or 5.x) and the fields nobody here knows.

**Source:** RocketMQ ConfigManager#load, #persist.
"""

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from broker.common.topic import is_lmq_topic
from broker.errors import ConfigError, RocketMQError, StoreError
from broker.store.config_file import ConfigFile
from broker.store.files import Disk
from broker.store.format import config as files

if TYPE_CHECKING:
    from broker.server.context import BrokerContext

log = logging.getLogger("broker.server")

Content = TypeVar("Content")


class ConfigStore:
    """The four files this role owns, in the ``config`` folder of the store.

    A broker with light queues keeps its consumer offsets in lmqConsumerOffset.json. One that had
    none before is switched over by the first write.

    **Source:** RocketMQ LmqConsumerOffsetManager.
    """

    def __init__(self, root: str, disk: Disk, *, light_queues: bool = False) -> None:
        folder = os.path.join(root, "config")
        self._light_queues = light_queues
        self._topics = ConfigFile(os.path.join(folder, files.TOPICS), disk)
        self._groups = ConfigFile(os.path.join(folder, files.SUBSCRIPTION_GROUP), disk)
        self._plain_offsets = ConfigFile(os.path.join(folder, files.CONSUMER_OFFSET), disk)
        self._light_offsets = ConfigFile(os.path.join(folder, files.LMQ_CONSUMER_OFFSET), disk)
        self._offsets = self._light_offsets if light_queues else self._plain_offsets
        self._delays = ConfigFile(os.path.join(folder, files.DELAY_OFFSET), disk)
        self._topics_seen = files.TopicsFile()
        self._groups_seen = files.SubscriptionGroupFile()
        self._offsets_seen = files.ConsumerOffsetFile()
        self._delays_seen = files.DelayOffsetFile()

    def load(self, context: "BrokerContext") -> None:
        """Fill the tables; ConfigError when a file and its backup are both unreadable."""
        topics = _load(self._topics, files.decode_topics)
        if topics is not None:
            self._topics_seen = topics
            context.topics.load(topics.topics, topics.data_version)
        groups = _load(self._groups, files.decode_subscription_group)
        if groups is not None:
            self._groups_seen = groups
            context.groups.load(groups.groups, groups.forbidden, groups.data_version)
        offsets = _load(self._offsets, files.decode_consumer_offset)
        if offsets is None and self._light_queues:
            offsets = _load(self._plain_offsets, files.decode_consumer_offset)
        if offsets is not None:
            self._offsets_seen = offsets
            light = {key: {0: offset} for key, offset in (offsets.lmq_offsets or {}).items()}
            context.offsets.load({**offsets.offsets, **light}, offsets.data_version)

    def check(self) -> None:
        """Whether all files can be used, before anything else of the store is touched.

        ConfigError or StoreError for the first that cannot.
        """
        _load(self._topics, files.decode_topics, tell=False)
        _load(self._groups, files.decode_subscription_group, tell=False)
        _load(self._offsets, files.decode_consumer_offset, tell=False)
        _load(self._delays, files.decode_delay_offset, tell=False)

    def load_delays(self, context: "BrokerContext") -> None:
        """Fill the delay offsets; after the store is open, which bounds them."""
        delays = _load(self._delays, files.decode_delay_offset)
        if delays is not None and context.delays is not None:
            self._delays_seen = delays
            context.delays.load(delays.offsets, delays.data_version)

    def save_topics(self, context: "BrokerContext") -> None:
        """Write topics.json."""
        table = context.topics
        content = msgspec.structs.replace(
            self._topics_seen, data_version=table.data_version.to_file(), topics=table.configs
        )
        self._topics.persist(files.encode_topics(content))

    def save_groups(self, context: "BrokerContext") -> None:
        """Write subscriptionGroup.json."""
        table = context.groups
        content = msgspec.structs.replace(
            self._groups_seen,
            data_version=table.data_version.to_file(),
            groups=table.configs,
            forbidden=table.forbidden,
        )
        self._groups.persist(files.encode_subscription_group(content))

    def save_progress(self, context: "BrokerContext") -> bool:
        """Write consumerOffset.json and delayOffset.json if they changed; True when any did."""
        job = self.take_progress(context)
        if job is None:
            return False
        job()
        return True

    def take_progress(self, context: "BrokerContext") -> Callable[[], None] | None:
        """What :meth:`save_progress` would do, to be run in another thread; None if nothing.

        Encoding and syncing a large offset table takes longer than the loop may stand still, so
        the job works on a copy. One job at a time: the caller waits for the last one.
        """
        jobs = [
            job
            for job in (self._offsets_job(context), self._delays_job(context))
            if job is not None
        ]
        if not jobs:
            return None

        def run() -> None:
            for job in jobs:
                job()

        return run

    def _offsets_job(self, context: "BrokerContext") -> Callable[[], None] | None:
        offsets = context.offsets
        if not offsets.changed:
            return None
        offsets.changed = False
        seen = self._offsets_seen
        table, light = offsets.snapshot(), seen.lmq_offsets
        if self._light_queues:
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

    def _delays_job(self, context: "BrokerContext") -> Callable[[], None] | None:
        delays = context.delays
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


def _load(
    file: ConfigFile, decode: Callable[[str], Content], *, tell: bool = True
) -> Content | None:
    """The decoded file, else its backup, None when neither exists; says which it is not the file.

    ConfigError when there is something and none of it can be decoded, StoreError when a file
    cannot be read.
    """
    try:
        text = file.load()
        if not text.strip():
            return None
        try:
            content, reason = decode(text), "is missing or empty"
        except RocketMQError as error:
            backup = "" if file.backup_counts else file.load_backup()
            content, reason = _decode_backup(file, backup, decode, error), error.message
            file.backup_counts = True
    except OSError as error:
        raise StoreError(
            f"{file.path}: {error.strerror or error}",
            "see to the disk; nothing was changed",
            path=file.path,
        ) from error
    if file.backup_counts and tell:
        log.warning("%s: %s: %s is used", file.path, reason, file.backup_path)
    return content


def _decode_backup(
    file: ConfigFile, backup: str, decode: Callable[[str], Content], error: RocketMQError
) -> Content:
    if backup.strip():
        try:
            return decode(backup)
        except RocketMQError:
            pass
    raise ConfigError(
        f"{file.path}: {error.message}",
        "neither the file nor its .bak can be read; repair one, or see what `mqadmin store repair`"
        " can restore",
    ) from error
