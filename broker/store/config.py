"""Settings of the store: every broker.conf key that the engine reads, with default and meaning.

``MessageStoreConfig`` contains the values, ``SETTINGS`` the broker.conf key, unit and meaning of
each field. Default file sizes are replaced by the sizes of existing files; an explicit size that
differs from the files is an error that names both.

**Source:** RocketMQ MessageStoreConfig (names and defaults).
"""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from broker.common.config.settings import (
    DAY_MS,
    HOUR_MS,
    INT_MAX,
    Setting,
    check_bounds,
    read_settings,
    write_settings,
)
from broker.errors import ConfigError
from broker.store.format.consumequeue import EXT_FILE_SIZE

ASYNC_FLUSH: Final = "ASYNC_FLUSH"
SYNC_FLUSH: Final = "SYNC_FLUSH"


class MessageStoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Effective settings of the store; ``SETTINGS`` documents each field."""

    store_path_root_dir: str = ""
    store_path_commit_log: str = ""
    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * 20
    mapper_file_size_batch_consume_queue: int = 300_000 * 46
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 5_000_000 * 4
    message_index_enable: bool = True
    message_index_safe: bool = False
    flush_disk_type: str = ASYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_least_pages: int = 2
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5_000
    max_message_size: int = 4 * 1024 * 1024
    check_crc_on_recover: bool = True
    delete_when: str = "04"
    file_reserved_time: int = 72
    clean_resource_interval: int = 10_000
    delete_file_batch_max: int = 10
    disk_max_used_space_ratio: int = 75
    disk_space_clean_forcibly_ratio: int = 85
    disk_space_warning_level_ratio: int = 90
    clean_file_forcibly_enable: bool = True
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    access_message_in_memory_max_ratio: int = 40
    max_msgs_num_batch: int = 64
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000
    timer_wheel_enable: bool = True
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 2 * 24 * 3_600
    timer_max_delay_sec: int = 3 * 24 * 3_600
    timer_flush_interval_ms: int = 1_000
    timer_congest_num_each_slot: int = INT_MAX
    timer_stop_enqueue: bool = False
    timer_stop_dequeue: bool = False
    mapped_file_size_timer_log: int = 100 * 1024 * 1024
    enable_consume_queue_ext: bool = False
    mapped_file_size_consume_queue_ext: int = EXT_FILE_SIZE
    os_page_cache_busy_time_out_mills: int = 1_000
    enable_multi_dispatch: bool = False
    enable_lmq: bool = False
    max_lmq_consume_queue_num: int = 20_000

    @property
    def root(self) -> str:
        """The store directory; ``~/store`` by default."""
        return self.store_path_root_dir or os.path.join(os.path.expanduser("~"), "store")

    @property
    def commit_log_folder(self) -> str:
        """The folder of the CommitLog files."""
        return self.store_path_commit_log or os.path.join(self.root, "commitlog")

    @property
    def sync_flush(self) -> bool:
        """True with flushDiskType=SYNC_FLUSH."""
        return self.flush_disk_type == SYNC_FLUSH


SETTINGS: Final[dict[str, Setting]] = {
    "store_path_root_dir": Setting("storePathRootDir", "", "store directory; empty: ~/store"),
    "store_path_commit_log": Setting(
        "storePathCommitLog", "", "folder of the CommitLog; empty: commitlog below the root"
    ),
    "mapped_file_size_commit_log": Setting(
        "mappedFileSizeCommitLog", "bytes", "length of one CommitLog file", bounds=(512, INT_MAX)
    ),
    "mapped_file_size_consume_queue": Setting(
        "mappedFileSizeConsumeQueue",
        "bytes",
        "length of one ConsumeQueue file, 20 per message",
        bounds=(20, INT_MAX),
    ),
    "mapper_file_size_batch_consume_queue": Setting(
        "mapperFileSizeBatchConsumeQueue",
        "bytes",
        "length of one batch ConsumeQueue file",
        bounds=(46, INT_MAX),
    ),
    "max_hash_slot_num": Setting(
        "maxHashSlotNum", "slots", "hash slots of one IndexFile", bounds=(1, 100_000_000)
    ),
    "max_index_num": Setting(
        "maxIndexNum", "entries", "entries of one IndexFile", bounds=(2, 100_000_000)
    ),
    "message_index_enable": Setting("messageIndexEnable", "", "write the IndexFile"),
    "message_index_safe": Setting(
        "messageIndexSafe", "", "after a crash read the log from the last full IndexFile on"
    ),
    "flush_disk_type": Setting(
        "flushDiskType", "", "SYNC_FLUSH: answer when the data is on disk; or ASYNC_FLUSH"
    ),
    "flush_interval_commit_log": Setting(
        "flushIntervalCommitLog",
        "ms",
        "between flushes of the CommitLog (ASYNC_FLUSH)",
        live=True,
        bounds=(1, HOUR_MS),
    ),
    "flush_commit_log_least_pages": Setting(
        "flushCommitLogLeastPages",
        "4 KiB pages",
        "dirty pages from which a flush is started",
        bounds=(0, 1_000_000),
    ),
    "flush_commit_log_thorough_interval": Setting(
        "flushCommitLogThoroughInterval",
        "ms",
        "flush of the CommitLog whatever is dirty",
        bounds=(0, DAY_MS),
    ),
    "flush_interval_consume_queue": Setting(
        "flushIntervalConsumeQueue",
        "ms",
        "between flushes of the ConsumeQueues",
        bounds=(1, HOUR_MS),
    ),
    "flush_consume_queue_least_pages": Setting(
        "flushConsumeQueueLeastPages",
        "4 KiB pages",
        "dirty pages of a queue from which it is flushed",
        bounds=(0, 1_000_000),
    ),
    "flush_consume_queue_thorough_interval": Setting(
        "flushConsumeQueueThoroughInterval",
        "ms",
        "flush of all ConsumeQueues and the checkpoint",
        bounds=(0, DAY_MS),
    ),
    "sync_flush_timeout": Setting(
        "syncFlushTimeout",
        "ms",
        "wait for a flush before FLUSH_DISK_TIMEOUT",
        live=True,
        bounds=(1, HOUR_MS),
    ),
    "max_message_size": Setting(
        "maxMessageSize",
        "bytes",
        "largest body; a whole record may be 64 KiB longer",
        live=True,
        bounds=(1, 1 << 30),
    ),
    "check_crc_on_recover": Setting("checkCRCOnRecover", "", "check body CRCs at recovery"),
    "delete_when": Setting(
        "deleteWhen",
        "hours",
        "hours of the day for deletions, 00 to 23, separated by ';'",
        live=True,
    ),
    "file_reserved_time": Setting(
        "fileReservedTime",
        "h",
        "keep a CommitLog file so long after its last write",
        live=True,
        bounds=(0, 1_000_000),
    ),
    "clean_resource_interval": Setting(
        "cleanResourceInterval", "ms", "between looks for files to delete", bounds=(1, DAY_MS)
    ),
    "delete_file_batch_max": Setting(
        "deleteFileBatchMax", "files", "deletions of one round", live=True, bounds=(1, 100_000)
    ),
    "disk_max_used_space_ratio": Setting(
        "diskMaxUsedSpaceRatio",
        "%",
        "above it expired files go at any hour (10 to 95)",
        live=True,
        bounds=(0, 100),
    ),
    "disk_space_clean_forcibly_ratio": Setting(
        "diskSpaceCleanForciblyRatio",
        "%",
        "above it the oldest files go in any case (30 to 85)",
        live=True,
        bounds=(0, 100),
    ),
    "disk_space_warning_level_ratio": Setting(
        "diskSpaceWarningLevelRatio",
        "%",
        "above it nothing is stored any more (35 to 90)",
        live=True,
        bounds=(0, 100),
    ),
    "clean_file_forcibly_enable": Setting(
        "cleanFileForciblyEnable", "", "allow deletion of files that are not expired", live=True
    ),
    "max_transfer_bytes_on_message_in_memory": Setting(
        "maxTransferBytesOnMessageInMemory",
        "bytes",
        "most of one pull, from the second message on",
        bounds=(1, 1 << 30),
    ),
    "max_transfer_count_on_message_in_memory": Setting(
        "maxTransferCountOnMessageInMemory", "messages", "most of one pull", bounds=(1, 1_000_000)
    ),
    "max_transfer_bytes_on_message_in_disk": Setting(
        "maxTransferBytesOnMessageInDisk",
        "bytes",
        "most of one pull of old messages",
        bounds=(1, 1 << 30),
    ),
    "max_transfer_count_on_message_in_disk": Setting(
        "maxTransferCountOnMessageInDisk",
        "messages",
        "most of one pull of old messages",
        bounds=(1, 1_000_000),
    ),
    "access_message_in_memory_max_ratio": Setting(
        "accessMessageInMemoryMaxRatio",
        "% of RAM",
        "messages farther from the end of the log count as on disk",
        bounds=(0, 100),
    ),
    "max_msgs_num_batch": Setting(
        "maxMsgsNumBatch", "messages", "most answers of a key query", bounds=(1, 100_000)
    ),
    "message_delay_level": Setting(
        "messageDelayLevel", "", "delays of the levels 1, 2, …; units s, m, h, d"
    ),
    "flush_delay_offset_interval": Setting(
        "flushDelayOffsetInterval",
        "ms",
        "between writes of delayOffset.json",
        live=True,
        bounds=(1, DAY_MS),
    ),
    "timer_wheel_enable": Setting(
        "timerWheelEnable", "", "deliver messages at any requested time (TIMER_DELIVER_MS)"
    ),
    "timer_precision_ms": Setting(
        "timerPrecisionMs",
        "ms",
        "length of a slot of the timer wheel: a message is at most so late",
        bounds=(10, 60_000),
    ),
    "timer_roll_window_slot": Setting(
        "timerRollWindowSlot",
        "slots",
        "messages due later than this are stored again before they are due",
        bounds=(0, INT_MAX),
    ),
    "timer_max_delay_sec": Setting(
        "timerMaxDelaySec",
        "s",
        "longest delay of a timer message",
        live=True,
        bounds=(1, 10 * 365 * 86_400),
    ),
    "timer_flush_interval_ms": Setting(
        "timerFlushIntervalMs",
        "ms",
        "between writes of the timer wheel, its log and its checkpoint",
        bounds=(10, HOUR_MS),
    ),
    "timer_congest_num_each_slot": Setting(
        "timerCongestNumEachSlot",
        "messages",
        "refuse further messages of a slot at random, from twice as many all",
        live=True,
        bounds=(1, INT_MAX),
    ),
    "timer_stop_enqueue": Setting(
        "timerStopEnqueue", "", "keep new timer messages out of the wheel for now", live=True
    ),
    "timer_stop_dequeue": Setting(
        "timerStopDequeue", "", "deliver no timer messages for now", live=True
    ),
    "mapped_file_size_timer_log": Setting(
        "mappedFileSizeTimerLog",
        "bytes",
        "length of one timer log file, 52 per message",
        bounds=(68, INT_MAX),
    ),
    "enable_consume_queue_ext": Setting(
        "enableConsumeQueueExt", "", "write an extension unit for each ConsumeQueue unit"
    ),
    "mapped_file_size_consume_queue_ext": Setting(
        "mappedFileSizeConsumeQueueExt",
        "bytes",
        "length of one file of extension units",
        bounds=(1_024, INT_MAX),
    ),
    "os_page_cache_busy_time_out_mills": Setting(
        "osPageCacheBusyTimeOutMills",
        "ms",
        "a send that is held up for so long makes the waiting ones fail with SYSTEM_BUSY",
        live=True,
        bounds=(1, HOUR_MS),
    ),
    "enable_multi_dispatch": Setting(
        "enableMultiDispatch", "", "dispatch to the queues that INNER_MULTI_DISPATCH names"
    ),
    "enable_lmq": Setting("enableLmq", "", "allow light message queues (%LMQ%…)"),
    "max_lmq_consume_queue_num": Setting(
        "maxLmqConsumeQueueNum",
        "queues",
        "light message queues beyond which messages for them are refused",
        live=True,
        bounds=(0, 10_000_000),
    ),
}

FIELD_OF_KEY: Final[dict[str, str]] = {setting.key: name for name, setting in SETTINGS.items()}
DEFAULTS: Final = MessageStoreConfig()

# field -> (minimum, maximum); the Java broker clamps the values likewise
_CLAMPED: Final = {
    "disk_max_used_space_ratio": (10, 95),
    "disk_space_clean_forcibly_ratio": (30, 85),
    "disk_space_warning_level_ratio": (35, 90),
}
_HOURS: Final = {text for hour in range(24) for text in (str(hour), f"{hour:02}")}
# Delivery times are stored as ms in 8 bytes and must not overflow; a longer delay is a typing
# error.
MAX_DELAY_MS: Final = 36_500 * DAY_MS
_MAX_DELAY_DIGITS: Final = 20
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def from_properties(
    properties: Mapping[str, str], base: MessageStoreConfig = DEFAULTS
) -> MessageStoreConfig:
    """``base`` updated with the store's keys in ``properties``; other keys are ignored.

    ConfigError for an invalid value.
    """
    return check(read_settings(SETTINGS, properties, base))


def to_properties(config: MessageStoreConfig) -> dict[str, str]:
    """Every setting as key → text, in the order of ``SETTINGS``."""
    return write_settings(SETTINGS, config)


def check(config: MessageStoreConfig) -> MessageStoreConfig:
    """``config`` with ratios clamped as in Java; ConfigError for an invalid value."""
    if config.flush_disk_type not in (ASYNC_FLUSH, SYNC_FLUSH):
        raise ConfigError(
            f"flushDiskType={config.flush_disk_type}: unknown", "use ASYNC_FLUSH or SYNC_FLUSH"
        )
    check_bounds(SETTINGS, config)
    parse_delay_levels(config.message_delay_level)
    delete_hours(config)
    clamped = {
        field: max(low, min(high, getattr(config, field)))
        for field, (low, high) in _CLAMPED.items()
    }
    return msgspec.structs.replace(config, **clamped)


def parse_delay_levels(text: str) -> dict[int, int]:
    """``1s 5s 1m …`` as level → delay in ms, levels from 1; ConfigError for an unknown unit.

    **Source:** RocketMQ ScheduleMessageService#parseDelayLevel.
    """
    levels = {}
    for level, part in enumerate(text.split(), start=1):
        unit = _UNIT_MS.get(part[-1])
        if unit is None or not part[:-1].isdecimal():
            raise ConfigError(f"messageDelayLevel: cannot read {part!r}", "write 5s, 1m, 2h or 1d")
        # The length is checked first: int() refuses texts of thousands of digits.
        delay_ms = int(part[:-1]) * unit if len(part) <= _MAX_DELAY_DIGITS else MAX_DELAY_MS + 1
        if delay_ms > MAX_DELAY_MS:
            raise ConfigError(
                f"messageDelayLevel: level {level} is longer than {MAX_DELAY_MS // DAY_MS} days"
            )
        levels[level] = delay_ms
    return levels


def delete_hours(config: MessageStoreConfig) -> frozenset[int]:
    """The hours of ``deleteWhen``; ConfigError if one is not an hour from 0 to 23."""
    hours = set()
    for part in config.delete_when.split(";"):
        if not part.strip():
            continue
        if part.strip() not in _HOURS:
            raise ConfigError(
                f"deleteWhen={config.delete_when}: {part.strip()!r} is not an hour from 00 to 23"
            )
        hours.add(int(part))
    return frozenset(hours)
