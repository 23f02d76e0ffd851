"""Compare configuration, checkpoint and marker files with the log and the queues."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from broker.common.java import parse_number
from broker.common.topic import (
    LMQ_PREFIX,
    SCHEDULE_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    is_system_topic,
)
from broker.errors import RemoteProtocolError, StoreError
from broker.store.format import config, state
from broker.store.format.consumequeue import UNIT_SIZE
from mqadmin.inspector.configs import (
    BACKUP,
    config_rows,
    content,
    decode_file,
    json_object,
    missing_table,
)
from mqadmin.inspector.damage import ERROR, NOTICE, WARNING, WHOLE_LOG, found
from mqadmin.inspector.directory import StoreDirectory, own_settings
from mqadmin.inspector.files import read_all
from mqadmin.inspector.queries.loss import indexed_places
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import CheckpointRow, DamageRow, StateRow
from mqadmin.inspector.store_manifest import StoreManifest
from mqadmin.inspector.verify.record_checks import RecordChecks
from mqadmin.inspector.verify.report import Findings
from mqadmin.inspector.verify.verdict import Verdict, fresh_unit
from mqadmin.system_topics.delay_levels import DELAY_LEVELS, parse_levels


class Settings(NamedTuple):
    """Values of a broker.conf in or next to the store; None if not set."""

    index_enabled: bool | None = None
    delay_levels: str | None = None
    values: Mapping[str, str] = MappingProxyType({})

    def number(self, key: str) -> int:
        """Return a setting as a non-negative integer, 0 if it is not set or not a number."""
        text = self.values.get(key, "").strip()
        return int(text) if text.isdecimal() else 0


def read_settings(store: StoreDirectory) -> Settings:
    """Read the broker.conf whose storePathRootDir is this store; defaults if there is none."""
    values = {} if store.root is None else own_settings(store.root)
    enabled = values.get("messageIndexEnable")
    return Settings(
        None if enabled is None else enabled.strip().lower() == "true",
        values.get("messageDelayLevel"),
        values,
    )


class ConfigChecks:
    """Reads ``config/`` once and compares it with the queues."""

    def __init__(self, store: StoreDirectory, findings: Findings) -> None:
        self.store = store
        self.findings = findings
        self.settings = read_settings(store)
        self.folder = store.folder(state.CONFIG_DIR)
        self.values: dict[str, tuple[str, dict[str, Any]]] = {}
        if self.folder is not None and self.folder.is_dir():
            self._read(self.folder)

    def _read(self, folder: Path) -> None:
        for row in config_rows(self.store, Query()):
            if isinstance(row, DamageRow):
                self.findings.take(row)
                continue
            table = missing_table(row.name, row.value)
            if table:
                self.findings.add("config", row.path, f"the file has no {table}")
            if not table or row.name != config.TOPICS:
                self.values[row.name] = (row.path, row.value)
            if row.from_backup and not (folder / row.name).exists():
                self.findings.add(
                    "config",
                    folder / row.name,
                    f"the file is missing, brokers read {row.name}{BACKUP}",
                    severity=WARNING,
                )
            elif not row.from_backup:
                self._backup(folder / (row.name + BACKUP))
        # A table with an invalid entry, or that of a backup, shows which topics were not deleted.
        for name in (config.TOPICS, config.TOPICS + BACKUP):
            root = json_object(content(folder / name))
            if root is not None and not missing_table(config.TOPICS, root):
                self.values.setdefault(config.TOPICS, (str(folder / name), root))

    def _backup(self, path: Path) -> None:
        """Report an unreadable backup: a broker reads it if the main file becomes unreadable."""
        try:
            data = read_all(path)
            if data is not None and path.name != "timercheck" + BACKUP:
                decode_file(path.name.removesuffix(BACKUP), data)
        except (StoreError, RemoteProtocolError) as error:
            self.findings.add("configBackup", path, error.message, severity=NOTICE)

    def topics(self) -> dict[str, int] | None:
        """Return the queue count by topic, None without a readable topics.json."""
        if config.TOPICS not in self.values:
            return None
        _, value = self.values[config.TOPICS]
        table = value.get("topicConfigTable")
        if not isinstance(table, dict):
            return None
        found = {}
        for name, topic in table.items():
            topic = topic if isinstance(topic, dict) else {}
            counts = [topic.get("readQueueNums", 16), topic.get("writeQueueNums", 16)]
            found[str(name)] = max([count for count in counts if isinstance(count, int)], default=0)
        return found

    def batch_topics(self) -> set[str]:
        """Return the topics that are of queue type BatchCQ in topics.json."""
        _, value = self.values.get(config.TOPICS, ("", {}))
        return {
            name
            for name, topic in _table(value, "topicConfigTable")
            if isinstance(topic, dict)
            and isinstance(attributes := topic.get("attributes"), dict)
            and attributes.get("queue.type") == "BatchCQ"
        }

    def compare(self, verdict: Verdict, records: RecordChecks) -> None:
        """Compare consumer offsets, delay offsets, delivery times and op records with queues."""
        ends = queue_ends(verdict)
        if self.folder is not None and self.folder.is_dir():
            self._unknown_topics(verdict)
        self._queue_types(verdict)
        topic = verdict.queues.topic
        for name in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET):
            self._consumer_offsets(name, verdict, ends, topic)
        if topic in (None, SCHEDULE_TOPIC):
            self._delay_offsets(verdict, ends)
            self._delay_times(verdict, records)
        half = ends.get((TRANS_HALF_TOPIC, 0), 0)
        for physical_offset, highest in records.ops if topic is None else ():
            if highest >= half:
                self.findings.add(
                    "transaction",
                    self.store.path,
                    f"op record at physical offset {physical_offset} names half message {highest},"
                    f" the queue of half messages ends at {half}",
                    physical_offset=physical_offset,
                )

    def _unknown_topics(self, verdict: Verdict) -> None:
        topics = verdict.topics
        assert self.folder is not None
        if topics is None:
            if config.TOPICS not in self.values and verdict.states:
                known = self.folder / config.TOPICS
                if not known.exists():
                    self.findings.add("config", known, "topics.json and its backup are missing")
            return
        for name in sorted({item.topic for item in verdict.states if item.units}):
            # 4.9 does not register the topic of op records; LMQs are not in the table.
            hidden = name == TRANS_OP_HALF_TOPIC or is_system_topic(name)
            if name not in topics and not hidden and not name.startswith(LMQ_PREFIX):
                self.findings.add(
                    "topicUnknown",
                    self.folder / config.TOPICS,
                    f"{name} has a ConsumeQueue but no entry",
                    severity=WARNING,
                )

    def _queue_types(self, verdict: Verdict) -> None:
        """Report the plain queues of BatchCQ topics; a Java broker does not start with them."""
        batch_topics = self.batch_topics()
        for queue in verdict.queues:
            if queue.topic in batch_topics and not queue.is_batch:
                self.findings.add(
                    "queueType",
                    queue.found.path,
                    f"{queue.topic} is a BatchCQ topic in topics.json, this is a SimpleCQ",
                    queue=(queue.topic, queue.queue_id),
                )

    def _consumer_offsets(
        self,
        name: str,
        verdict: Verdict,
        ends: dict[tuple[str, int], int],
        topic: str | None,
    ) -> None:
        path, value = self.values.get(name, ("", {}))
        rows: list[tuple[str, int, Any]] = []
        for key, queues in _table(value, "offsetTable"):
            if isinstance(queues, dict):
                rows += [
                    (key, int(number), offset)
                    for number, offset in queues.items()
                    if str(number).isdecimal()
                ]
        rows += [(key, 0, offset) for key, offset in _table(value, "lmqOffsetTable")]
        for key, queue_id, offset in rows:
            own, _ = config.split_topic_group(key)
            end = ends.get((own, queue_id), 0)
            known = verdict.topics is None or own in verdict.topics or own.startswith(LMQ_PREFIX)
            if topic not in (None, own) or not known or not isinstance(offset, int):
                continue
            if offset > end and not self._is_there(verdict, own, queue_id, offset - 1):
                self.findings.add(
                    "offset",
                    path,
                    f"{key}: offset {offset} of queue {queue_id}, the queue ends at {end}",
                    severity=WARNING,
                )

    def _delay_offsets(self, verdict: Verdict, ends: dict[tuple[str, int], int]) -> None:
        path, value = self.values.get(config.DELAY_OFFSET, ("", {}))
        for level, offset in _table(value, "offsetTable"):
            if not str(level).isdecimal() or not isinstance(offset, int):
                continue
            queue_id = int(level) - 1
            end = ends.get((SCHEDULE_TOPIC, queue_id), 0)
            if offset > end and not self._is_there(verdict, SCHEDULE_TOPIC, queue_id, offset - 1):
                self.findings.add(
                    "delayOffset",
                    path,
                    f"level {level} has offset {offset}, its queue ends at {end}",
                    severity=WARNING,
                )

    def _is_there(self, verdict: Verdict, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a running broker has written the unit in the meantime."""
        root = self.store.root
        if not verdict.bounds.running or root is None:
            return False
        folder = root / state.CONSUMEQUEUE_DIR / topic / str(queue_id)
        return fresh_unit(folder, queue_offset) >= 0

    def _delay_times(self, verdict: Verdict, records: RecordChecks) -> None:
        """Check that delivery times of a level are storeTimestamp plus the delay of the level."""
        configured = self.settings.delay_levels
        levels = parse_levels(configured or DELAY_LEVELS)
        for queue_id, delays in sorted(records.delays.items()):
            named = levels[queue_id] if queue_id < len(levels) else None
            for delay, seen in sorted(delays.items()):
                if delay == named or (queue_id >= len(levels) and delay == 1000):
                    continue
                # An earlier messageDelayLevel may apply: its delays are whole seconds.
                alone = len(delays) == 1 or seen.messages > 1
                if configured is None and delay > 0 and delay % 1000 == 0 and alone:
                    continue
                self._delay_finding(
                    verdict,
                    queue_id,
                    (seen.queue_offset, seen.physical_offset),
                    f"{seen.messages} messages of level {queue_id + 1} are due {delay} ms after"
                    f" they were stored, the first at queue offset {seen.queue_offset}",
                )
        for queue_id, lost in sorted(records.lost_delays.items()):
            self._delay_finding(
                verdict,
                queue_id,
                (lost.queue_offset, lost.physical_offset),
                f"{lost.messages} messages of level {queue_id + 1} have lost their time of delivery"
                " (a recovery of 4.9.3 to 4.9.8 does that): they are delivered at once",
            )

    def _delay_finding(
        self, verdict: Verdict, queue_id: int, place: tuple[int, int], detail: str
    ) -> None:
        queue = verdict.queues.queues.get((SCHEDULE_TOPIC.encode(), queue_id))
        path = self.store.path if queue is None else queue.path_of(place[0])
        self.findings.add(
            "deliverTime",
            path,
            detail,
            file_position=place[0] * UNIT_SIZE,
            length=UNIT_SIZE,
            queue=(SCHEDULE_TOPIC, queue_id),
        )


def queue_ends(verdict: Verdict) -> dict[tuple[str, int], int]:
    """Return the maxOffset of each queue that units or records show."""
    ends = {(item.topic, item.queue_id): item.max_offset for item in verdict.states}
    for queue in verdict.queues:
        for run in queue.runs:
            key = (queue.topic, queue.queue_id)
            ends[key] = max(ends.get(key, 0), run.last + 1)
    for key, end in verdict.unread_ends.items():
        ends[key] = max(ends.get(key, 0), end)
    for (topic, queue_id), absent in verdict.queues.absent.items():
        name = topic.decode("utf-8", "replace")
        ends[name, queue_id] = max(ends.get((name, queue_id), 0), absent.last + 1)
    return ends


def _table(value: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    table = value.get(name)
    return [(str(key), item) for key, item in table.items()] if isinstance(table, dict) else []


def check_checkpoint(
    store: StoreDirectory,
    row: CheckpointRow | None,
    findings: Findings,
    *,
    end: int,
    newest: int,
) -> None:
    """Compare the checkpoint with the log: none of its times is later than the newest record.

    ``end`` is the end of the log, ``newest`` the latest storeTimestamp in ms, 0 without records.
    """
    root = store.root
    if root is None:
        return
    path = root / state.CHECKPOINT
    if row is None:
        if newest and not path.exists():
            # Our broker writes the checkpoint with its first flush, so a new store has none.
            young = (root / state.QUEUE_ENDS).exists() and (root / state.ABORT).exists()
            if not young:
                findings.add(
                    "checkpoint",
                    path,
                    "the file is missing: after a crash the whole log is scanned",
                    severity=WARNING,
                )
        return
    for name, value in (
        ("physicMsgTimestamp", row.physic_msg_timestamp),
        ("logicsMsgTimestamp", row.logics_msg_timestamp),
        ("indexMsgTimestamp", row.index_msg_timestamp),
    ):
        if value is not None and (value > newest or value < 0):
            findings.add(
                "checkpoint",
                path,
                f"{name} is {value}, the youngest message of the log is of {newest}:"
                " the log has lost its end, or the file is damaged",
                severity=WARNING if newest else ERROR,
            )
    if row.confirm_physical_offset > end or row.confirm_physical_offset < 0:
        findings.add(
            "checkpoint",
            path,
            f"confirmPhysicalOffset is {row.confirm_physical_offset}, the log ends at {end}",
            severity=WARNING,
        )


def check_queue_ends(
    store: StoreDirectory, recorded: StoreManifest, findings: Findings, extent: tuple[int, int]
) -> None:
    """Compare start and end of the log with those that our broker recorded at its last clean stop.

    Cleaning moves the recorded start, too. A Java broker that used the store later moves neither.
    """
    start, end = extent
    if store.root is None:
        return
    path = store.root / state.QUEUE_ENDS
    if recorded.problem:
        findings.take(
            found(
                "config",
                str(path),
                recorded.problem,
                severity=NOTICE,
                suggestion=WHOLE_LOG,
            )
        )
    elif recorded.log_end > end:
        findings.add(
            "checkpoint",
            path,
            f"the log ended at {recorded.log_end} when the broker stopped, now it ends at {end}",
        )
    if 0 <= recorded.log_min < start and recorded.log_end >= end:
        findings.add(
            "checkpoint",
            path,
            f"the log started at {recorded.log_min} when the broker stopped, now it starts at"
            f" {start}: its first files are missing",
        )


def count_losses(verdict: Verdict, damage_rows: list[DamageRow], *, moving: bool) -> None:
    """Complete the losses: damaged bodies, then messages in queueEnds.json and the index.

    The last two also show messages whose ConsumeQueues are missing. ``moving`` (the store is
    running, or only a part of the log was scanned): index entries may be newer than the scan.
    """
    losses, findings, root = verdict.losses, verdict.findings, verdict.queues.root
    for row in damage_rows:
        place = row.kind in ("crc", "propertyCrc") and verdict.log.record(row.physical_offset or 0)
        if place:
            record = place[1]
            key = (record.topic.decode("utf-8", "surrogateescape"), record.queue_id)
            losses.add(key, record.queue_offset, place=record.physical_offset)
    if root is None or moving or verdict.queues.topic is not None:
        return
    end, unplaced = verdict.bounds.end, 0
    severity = ERROR if verdict.bounds.clean_stop else WARNING
    for (topic, queue_id), first, count in losses.add_recorded(
        verdict.queues.recorded, queue_ends(verdict), end
    ):
        unplaced += count
        detail = f"{topic}/{queue_id} had {count} messages from queue offset {first} on: lost"
        findings.add("lost", root / state.QUEUE_ENDS, detail, severity=severity)
    count = losses.add_indexed(indexed_places(StoreDirectory(root), end), unplaced)
    if count:
        detail = f"{count} messages that only the index knows are lost; the log ends at {end}"
        findings.add("lost", root / state.INDEX_DIR, detail, severity=severity)


def check_file_types(store: StoreDirectory, findings: Findings) -> None:
    """Report files and directories in each other's place: a broker refuses to start with them."""
    root = store.root
    if root is None:
        return
    topics = [f"{name}/{path.name}" for name in state.QUEUE_DIRS for path in _entries(root / name)]
    for folder in ("", state.CONFIG_DIR, *state.QUEUE_DIRS, *topics):
        for path in _entries(root / folder):
            wrong = state.wrong_type(
                folder,
                path.name,
                is_file=path.is_file(),
                is_folder=path.is_dir(),
                exists=path.exists(),
            )
            if wrong is not None:
                findings.add("unreadable", path, f"{wrong.cause}: {wrong.hint}")
    numbered = [root / name for name in (state.COMMITLOG_DIR, state.INDEX_DIR, state.TIMERLOG_DIR)]
    numbered += [queue for topic in topics for queue in _entries(root / topic)]
    for place in numbered:
        for path in _entries(place):
            if not path.name.isdecimal() or path.is_file():
                continue
            if path.exists() or path.is_symlink():  # else a running broker has removed it
                wrong = state.DIRECTORY if path.is_dir() else state.SPECIAL
                findings.add("unreadable", path, f"{wrong.cause}: {wrong.hint}")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def check_state(store: StoreDirectory, row: StateRow, findings: Findings) -> None:
    """Check the contents of abort and lock file, and their combination."""
    root = store.root
    if root is None:
        return
    abort = root / state.ABORT
    lock = root / state.LOCK
    data = read_all(abort) if abort.is_file() else None
    if data is not None and data.strip() and parse_number(data.split()[0], 0) is None:
        findings.add("state", abort, f"{data[:20]!r} is not a process id", severity=WARNING)
    # A locked file is not opened: closing it would release a POSIX lock held by this process.
    free = lock.is_file() and store.lock_is_free()
    if free and (read_all(lock) or b"")[:4] not in (b"", state.LOCK_TEXT):
        findings.add("state", lock, "the file holds another text than 'lock'", severity=WARNING)
    if row.held_by and not row.abort:
        findings.add(
            "state",
            lock,
            f"process {row.held_by} holds the lock, but there is no abort file: the broker is"
            " about to start, or it was removed by hand and a crash would look like a clean stop",
            severity=NOTICE,
        )
