"""Repair a damaged store as a copy.

:func:`make_plan` (in :mod:`~mqadmin.repair.plan`) lists the steps; :func:`repair` performs them in
a new directory and verifies the result. Files that are not written to any more are hard-linked, so
the copy needs space only for changed files. :func:`repair_in_place` exchanges the copy and the
original and keeps the original as a backup.

Bytes of the log that are covered or cut are preserved below ``damaged/`` of the copy, one file per
region, named after physical offset and length, so that other tools can still read them.
"""

import shutil
from pathlib import Path
from typing import Final

import msgspec

from broker.common.topic import LMQ_PREFIX, SCHEDULE_TOPIC, TopicConfig, is_system_topic
from broker.errors import ConfigError, StoreError, StoreLockedError
from broker.store.format import config, state
from broker.store.format.checkpoint import Checkpoint, encode_checkpoint
from broker.store.format.commitlog import RECORD, encode_blank, file_name
from broker.store.format.state import QUEUE_ENDS
from mqadmin.inspector.configs import BACKUP, content, keep_valid_entries, map_offsets
from mqadmin.inspector.damage import NOTICE
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import open_bytes, read_all
from mqadmin.inspector.queries.loss import QueueLoss, total
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.store_manifest import encode_deleted
from mqadmin.inspector.verify.report import VerifySummary
from mqadmin.inspector.verify.verifier import Progress, VerifyOptions, verify
from mqadmin.repair.derived_files.build_index import IndexWriter
from mqadmin.repair.derived_files.build_queues import BuildTable, OldUnits
from mqadmin.repair.derived_files.build_timers import TIMER_FILES, TimerBuilder, is_rebuilt_part
from mqadmin.repair.derived_files.rebuild import rebuild
from mqadmin.repair.files import Output
from mqadmin.repair.filler import fillers
from mqadmin.repair.plan import BEYOND_REPAIR, RepairPlan, Step, make_plan

DAMAGED: Final = "damaged"
# Files that are rebuilt, copied by their own step, or left out; all others are copied unchanged.
_OURS: Final = frozenset(
    {
        state.COMMITLOG_DIR,
        state.CONSUMEQUEUE_DIR,
        state.BATCH_CONSUMEQUEUE_DIR,
        state.INDEX_DIR,
        state.CONFIG_DIR,
        state.CHECKPOINT,
        state.ABORT,
        state.ABORT + ".bak",
        state.LOCK,
        QUEUE_ENDS,
        DAMAGED,
    }
)


class RepairResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of a repair.

    ``findings`` are those of the copy; ``ok``: all of them are of kinds that no repair can change.
    ``backup`` is the old directory after an exchange. ``bridged`` counts filler units. ``lost``
    counts the messages without records, by topic and queue.
    """

    output: str
    ok: bool
    backup: str | None
    steps: list[Step]
    files_linked: int
    files_copied: int
    files_written: int
    queues_rebuilt: int
    units_written: int
    bridged: int
    index_keys: int
    findings: list[DamageRow]
    summary: VerifySummary
    lost_messages: int
    lost: list[QueueLoss]


def repair(
    plan: RepairPlan, output: Path, *, links: bool = True, progress: Progress | None = None
) -> RepairResult:
    """Perform a plan in ``output``, a directory that does not exist or is empty.

    Raises StoreLockedError while a broker runs on the store, ConfigError if ``output`` is not empty
    or cannot be written, DiskFullError if the disk is full; the incomplete output is removed.
    """
    refuse_running(plan.store)
    root = plan.store.root
    assert root is not None
    if output.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{output} is inside the store", "name a directory outside of it")
    made = Output(output, links=links)
    try:
        return _Repair(plan, made, progress).run()
    except BaseException:
        made.discard()
        raise


def repair_in_place(
    plan: RepairPlan, backup: Path, *, links: bool = True, progress: Progress | None = None
) -> RepairResult:
    """Repair next to the store, then exchange both: ``backup`` is the old directory afterwards.

    Raises StoreError if the copy does not verify or cannot be exchanged, StoreLockedError if a
    broker runs on the store before or after the copy is made; the store is then unchanged. Raises
    ConfigError if the backup exists or would be on another file system.
    """
    root = plan.store.root
    assert root is not None
    root = root.resolve()
    if backup.exists():
        raise ConfigError(f"{backup} exists", "name a backup that does not exist")
    refuse_elsewhere(root, backup)
    copy = root.with_name(root.name + ".repairing")
    result = repair(plan, copy, links=links, progress=progress)
    if not result.ok:
        raise StoreError(
            f"{copy} does not verify; {root} was left unchanged",
            f"check it with mqadmin store verify {copy}",
            path=str(copy),
        )
    try:
        refuse_running(plan.store)
    except StoreLockedError:  # started since the repair began: the copy lacks its messages
        shutil.rmtree(copy, ignore_errors=True)
        raise
    exchange(root, copy, backup)
    checkpoint = result.summary.checkpoint
    if checkpoint is not None:
        checkpoint = msgspec.structs.replace(checkpoint, path=str(root / state.CHECKPOINT))
    summary = msgspec.structs.replace(result.summary, path=str(root), checkpoint=checkpoint)
    return msgspec.structs.replace(result, output=str(root), backup=str(backup), summary=summary)


def exchange(root: Path, copy: Path, backup: Path) -> None:
    """Rename ``root`` to ``backup`` and ``copy`` to ``root``; StoreError leaves both."""
    try:
        root.rename(backup)
        try:
            copy.rename(root)
        except BaseException:
            if not root.exists():  # an interrupt may also follow the rename
                backup.rename(root)
            raise
    except OSError as error:
        raise StoreError(
            f"{root} and {copy} cannot be exchanged: {error.strerror or error}",
            f"{root} is unchanged; {copy} is complete: rename both by hand",
            path=str(root),
        ) from error


def refuse_elsewhere(root: Path, backup: Path) -> None:
    """Refuse a backup on another file system: the exchange consists of two renames."""
    parent = backup.absolute().parent
    try:
        same = parent.stat().st_dev == root.stat().st_dev
    except OSError as error:
        raise ConfigError(
            f"no backup can be made in {parent}: {error.strerror}", "name a folder that is there"
        ) from None
    if not same:
        raise ConfigError(
            f"{backup} is on another file system than {root}",
            "name a backup next to the store, and move it after the repair",
        )


def refuse_running(store: StoreDirectory) -> None:
    holder = store.state().held_by
    if holder:
        raise StoreLockedError(
            f"{store.path}: process {holder} holds the lock, a broker runs on this store",
            "stop it first; inspection and verification work while it runs",
            path=str(store.path),
        )


class _Repair:
    def __init__(self, plan: RepairPlan, made: Output, progress: Progress | None) -> None:
        self.plan = plan
        self.made = made
        self.progress = progress
        root = plan.store.root
        assert root is not None
        self.root = root
        self.writers: dict[tuple[str, int], int] = {}

    def run(self) -> RepairResult:
        plan = self.plan
        self._log()
        self._others()
        self._config()
        table = self._queues_and_index()
        self._clamp(table)
        self.made.sync()
        after = verify(StoreDirectory(self.made.root), VerifyOptions(), self.progress)
        remaining = [row for row in after.findings if row.severity != NOTICE]
        queues = table.queues.values()
        return RepairResult(
            output=str(self.made.root),
            ok=all(row.kind in BEYOND_REPAIR for row in remaining),
            backup=None,
            steps=plan.steps,
            files_linked=self.made.linked,
            files_copied=self.made.copied,
            files_written=self.made.written,
            queues_rebuilt=len(table.queues),
            units_written=sum(writer.units for writer in queues),
            bridged=sum(writer.bridged for writer in queues),
            index_keys=self.index_keys,
            findings=remaining,
            summary=after.summary,
            lost_messages=total(plan.before.losses),
            lost=plan.before.losses,
        )

    # --- the log --------------------------------------------------------------------------------

    def _log(self) -> None:
        plan = self.plan
        size = plan.arrangement.size
        first = plan.arrangement.files[0].start
        # A broker appends to this file, even if the log ends exactly at the end of it: recovery
        # drops a blank record that no record follows.
        last = max(
            (f.start for f in plan.arrangement.files if f.start < plan.log_end), default=first
        )
        for file in plan.arrangement.files:
            if file.start >= plan.log_end and file.start != first:
                self._keep_part(file, file.start, file.start + file.length)
                continue  # preallocated, or a torn end only
            patched = [
                patch for patch in plan.patches if file.start <= patch[0] < file.start + size
            ]
            fields = [field for field in plan.fields if file.start <= field[0] < file.start + size]
            is_last = file.start == last
            whole = file.length == size and not file.overlap
            sealed = whole and not patched and not fields and not is_last
            name = f"{state.COMMITLOG_DIR}/{file_name(file.start)}"
            self.made.take(file.path, name, sealed=sealed)
            if not sealed:
                self._repair_header(file, name, patched, is_last)
                with self.made.open(name) as blocks:
                    for at, data in fields:
                        blocks.put(at - file.start, data)
        for start in plan.gaps:
            with self.made.create(f"{state.COMMITLOG_DIR}/{file_name(start)}", size) as blocks:
                blocks.put(0, encode_blank(size))

    def _repair_header(
        self, file: LogFile, name: str, patched: list[tuple[int, int, str]], is_last: bool
    ) -> None:
        plan = self.plan
        size = plan.arrangement.size
        with self.made.open(name) as blocks:
            if file.overlap:
                self._keep_part(file, file.start + size, file.start + size + file.overlap)
            if file.length + file.overlap != size:
                blocks.resize(size)
            for begin, end, how in patched:
                self._keep_part(file, begin, end)
                if how == "blank":
                    blocks.clear(begin - file.start, size)
                    blocks.put(begin - file.start, encode_blank(end - begin))
                    continue
                why = f"mqadmin store repair: {end - begin} damaged bytes at {begin}"
                for at, data in fillers(begin, end, plan.survey.time_before(begin), why):
                    blocks.put(at - file.start, data)
            if is_last:
                self._keep_part(file, plan.log_end, file.start + file.length)
                blocks.clear(plan.log_end - file.start, size)

    def _keep_part(self, file: LogFile, begin: int, end: int) -> None:
        """Preserve the bytes of a region that is covered or cut, unless they are all zeros."""
        with open_bytes(file.path) as opened:
            stop = min(end - file.start, opened.data_end)
            data = bytes(opened.data[begin - file.start : stop]).rstrip(b"\0")
        if data:
            self.made.write(f"{DAMAGED}/{begin}-{end - begin}.bin", data)

    # --- copied files ---------------------------------------------------------------------------

    def _others(self) -> None:
        """Copy or link the files that are not rebuilt: queues, IndexFiles, timer files, others."""
        plan = self.plan
        for queue in plan.store.queue_files():
            if (queue.topic, queue.queue_id) in plan.rebuild_queues:
                continue
            for number, (path, _) in enumerate(queue.files):
                sealed = number + 1 < len(queue.files)
                self.made.take(path, str(path.relative_to(self.root)), sealed=sealed)
        files = plan.store.index_files()
        for number, path in enumerate(files):
            if not plan.rebuild_index and path.name.isdecimal():
                sealed = number + 1 < len(files)
                self.made.take(path, f"{state.INDEX_DIR}/{path.name}", sealed=sealed)
        for entry in sorted(self.root.iterdir()):
            if entry.name in _OURS or (plan.rebuild_timers and entry.name in TIMER_FILES):
                continue
            for path in [entry] if entry.is_file() else sorted(entry.rglob("*")):
                rebuilt = is_rebuilt_part(path, self.root, plan.rebuild_queues)
                if path.is_file() and not rebuilt:
                    self.made.take(path, str(path.relative_to(self.root)), sealed=False)

    def _config(self) -> None:
        folder = self.root / state.CONFIG_DIR
        for name, how in self.plan.configs.items():
            target = f"{state.CONFIG_DIR}/{name}"
            spare = folder / (name + BACKUP)
            if how == "keep":
                self.made.take(folder / name, target, sealed=False)
            elif how == "trim":
                self.made.write(target, content(folder / name).strip(b"\0"))
            elif how == "restore":
                self.made.take(spare, target, sealed=False)
            elif how in ("topics", "addTopics", "entries"):
                data = content(spare) if how == "addTopics" else content(folder / name)
                kept = keep_valid_entries(name, data)
                text = kept.text if kept is not None else ""
                if how != "entries":
                    text = self._topics(text)
                self.made.write(target, text.encode())
            if how != "keep":
                old = content(folder / name)
                if old:
                    self.made.write(f"{DAMAGED}/{name}", old)
            if how in ("keep", "trim", "restore", "addTopics") and spare.is_file():
                self.made.take(spare, target + BACKUP, sealed=False)

    def _topics(self, text: str) -> str:
        """Build topics.json from ``text``, if any, and the queues that units or records show."""
        found = config.decode_topics(text) if text else config.TopicsFile()
        counts: dict[str, int] = {}
        keys = {(item.topic, item.queue_id) for item in self.plan.before.queues}
        for topic, queue_id in keys | self.plan.rebuild_queues:
            counts[topic] = max(counts.get(topic, 0), queue_id + 1)
        topics = {
            topic: TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count)
            for topic, count in sorted(counts.items())
            if not topic.startswith(LMQ_PREFIX) and not is_system_topic(topic)
        }
        merged = msgspec.structs.replace(found, topics=topics | found.topics)
        return config.encode_topics(merged)

    # --- rebuilt files --------------------------------------------------------------------------

    def _queues_and_index(self) -> BuildTable:
        plan = self.plan
        source = plan.store
        batch = {queue.topic for queue in source.queue_files() if queue.kind == "batch"}
        batch |= plan.before.batch_topics
        deleted = plan.before.deleted
        table = BuildTable(self.made, plan.rebuild_queues, batch, plan.queue_sizes, deleted)
        if deleted:
            # Otherwise a broker that reads the whole log would restore the deleted messages.
            self.made.write(QUEUE_ENDS, encode_deleted(deleted, plan.log_end))
        index = IndexWriter(self.made, *plan.index_shape) if plan.rebuild_index else None
        newest = plan.before.newest_timestamp
        self.index_keys = 0
        if plan.rebuild_queues or index is not None:
            old = OldUnits(source)
            made = StoreDirectory(self.made.root)
            newest = rebuild(made, table, old, index, plan.settings.delay_levels)
            old.close()
            self._fix_offsets(table)
        if index is not None:
            index.close()
            self.index_keys = index.keys
        self._checkpoint(newest, index)
        if plan.rebuild_timers:
            builder = TimerBuilder(self.made, source, plan.settings, newest)
            builder.build(clean=plan.before.summary.state == "clean")
        return table

    def _fix_offsets(self, table: BuildTable) -> None:
        """Correct queue offsets of records that the adjacent records of the queue determine."""
        for at, queue_offset in table.fixes:
            start = max(f.start for f in self.plan.arrangement.files if f.start <= at)
            with self.made.open(f"{state.COMMITLOG_DIR}/{file_name(start)}") as blocks:
                place = at - start + RECORD.offset("queueOffset")
                blocks.put(place, queue_offset.to_bytes(8, "big"))
            self.plan.steps.append(
                Step(
                    action="setField",
                    target="commitlog",
                    detail=f"queueOffset becomes {queue_offset}, from the adjacent records",
                    physical_offset=at,
                )
            )

    def _checkpoint(self, newest: int, index: IndexWriter | None) -> None:
        """Write the checkpoint; copy the old one unless a writeCheckpoint step is planned."""
        old = self.plan.before.summary.checkpoint
        rewritten = any(step.action == "writeCheckpoint" for step in self.plan.steps)
        if old is not None and not rewritten:
            self.made.take(self.root / state.CHECKPOINT, state.CHECKPOINT, sealed=False)
            return
        kept = 0 if old is None else old.index_msg_timestamp or 0
        confirm = 0 if old is None else old.confirm_physical_offset
        value = Checkpoint(
            physic_msg_timestamp=newest,
            logics_msg_timestamp=newest,
            index_msg_timestamp=index.full_until
            if index is not None
            else (kept if 0 <= kept <= newest else 0),
            confirm_physical_offset=min(max(confirm, 0), self.plan.log_end),
        )
        self.made.write(state.CHECKPOINT, encode_checkpoint(value))

    def _clamp(self, table: BuildTable) -> None:
        """Reduce offsets to their queues' ends, because larger ones would skip new messages."""
        if not any(step.action == "clampOffsets" for step in self.plan.steps):
            return
        ends = {(item.topic, item.queue_id): item.max_offset for item in self.plan.before.queues}
        for writer in table.queues.values():
            ends[writer.key] = max(writer.next, 0)
        known = {topic for topic, _ in ends} | self._known_topics()
        for name in (config.CONSUMER_OFFSET, config.LMQ_CONSUMER_OFFSET):
            self._clamp_consumer_offsets(self.made.root / state.CONFIG_DIR / name, ends, known)
        path = self.made.root / state.CONFIG_DIR / config.DELAY_OFFSET
        data = read_all(path)
        if data is not None:
            delay = config.decode_delay_offset(data)
            levels = {
                level: min(offset, ends.get((SCHEDULE_TOPIC, level - 1), 0))
                for level, offset in delay.offsets.items()
            }
            if levels != delay.offsets:
                delay = msgspec.structs.replace(delay, offsets=levels)
                self._rewrite(path, config.encode_delay_offset(delay))

    def _clamp_consumer_offsets(
        self, path: Path, ends: dict[tuple[str, int], int], known: set[str]
    ) -> None:
        data = read_all(path)
        if data is None:
            return
        stored = config.decode_consumer_offset(data)

        def clamped(topic: str, queue_id: int, offset: int) -> int:
            if topic not in known:  # it was deleted, and its offsets are not used
                return offset
            return min(offset, ends.get((topic, queue_id), 0))

        new = map_offsets(stored, clamped)
        if new != stored:
            self._rewrite(path, config.encode_consumer_offset(new))

    def _known_topics(self) -> set[str]:
        data = read_all(self.made.root / state.CONFIG_DIR / config.TOPICS)
        return set() if data is None else set(config.decode_topics(data).topics)

    def _rewrite(self, path: Path, text: str) -> None:
        self.made.write(str(path.relative_to(self.made.root)), text.encode())


__all__ = ["RepairPlan", "RepairResult", "Step", "make_plan", "repair", "repair_in_place"]
