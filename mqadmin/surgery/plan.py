"""What a repair will do, step by step, before anything is done."""

from struct import Struct
from typing import Any, Final

import msgspec

from broker.common.sysflag import BORNHOST_V6, TRANSACTION_PREPARED
from broker.errors import RemoteProtocolError, StoreError
from broker.store.format import config, indexfile, state
from broker.store.format.commitlog import RECORD, LogRecord, read_record
from broker.store.format.consumequeue import BATCH_FILE_SIZE, FILE_SIZE, UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.configs import BACKUP
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes, read_all
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify import Progress, Verification, VerifyOptions, verify
from mqadmin.inspector.verify_config import Settings, read_settings
from mqadmin.inspector.verify_entries import shape_of
from mqadmin.inspector.verify_judge import Misfit
from mqadmin.inspector.verify_queues import usual_lengths
from mqadmin.inspector.verify_rows import NOTICE
from mqadmin.surgery.filler import LEAST
from mqadmin.surgery.survey import Arranged, Arrangement, Survey, arrange

INDEX_KINDS: Final = frozenset(
    {"index", "indexChain", "indexEntry", "indexMissing", "indexOverlap"}
)
# What no rebuilding can change: it is said again of the result, as a fact about the messages.
BEYOND_REPAIR: Final = frozenset(
    {"superseded", "order", "timestamp", "transaction", "topicUnknown"}
)
_BLANK_LEAST: Final = 8
_OWN_AT: Final = RECORD.offset("physicalOffset")
_QUEUE_ID_AT: Final = RECORD.offset("queueId")
_QUEUE_OFFSET_AT: Final = RECORD.offset("queueOffset")
_SYS_FLAG_AT: Final = RECORD.offset("sysFlag")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
# How much further back fields stand behind an IPv6 born host.
_IPV6_MORE: Final = 12


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing a repair does; ``physicalOffset`` and ``length`` where it is about a part."""

    action: str
    target: str
    detail: str
    physical_offset: int | None = None
    length: int | None = None


class RepairPlan(msgspec.Struct, kw_only=True):
    """All steps, and what they were worked out from."""

    store: StoreDirectory
    arrangement: Arrangement
    survey: Survey
    before: Verification
    settings: Settings
    steps: list[Step]
    patches: list[tuple[int, int, str]]  # begin, end of what is covered, and how: fill or blank
    fields: list[tuple[int, bytes]]  # physical offset and right bytes of single damaged fields
    gaps: list[int]  # starts of files that are missing
    rebuild_queues: set[tuple[str, int]]
    rebuild_index: bool
    queue_sizes: tuple[int, int]
    index_shape: tuple[int, int]
    configs: dict[str, str]  # file of config/ -> "keep", "restore", "drop" or "topics"
    log_end: int

    @property
    def findings(self) -> list[DamageRow]:
        """What verification found."""
        return self.before.findings


def make_plan(store: StoreDirectory, progress: Progress | None = None) -> RepairPlan:
    """Look at a store and say what would make it whole; nothing is written.

    StoreError if ``store`` is not the root of a store, or holds no record at all.
    """
    if store.root is None or store.path != store.root:
        raise StoreError(
            f"{store.path} is no store directory",
            "give the directory that holds commitlog/; for single files: mqadmin store recover",
            path=str(store.path),
        )
    for file in store.log_files():
        with open_bytes(file.path):
            pass  # what cannot be read now is not lost: nothing is planned without it
    found = arrange(store)
    arranged = Arranged(store, found.files)
    survey = Survey(arranged)
    if not survey.records:
        raise StoreError(
            f"{store.path}: the log holds no whole record",
            "mqadmin store recover looks for messages in single files, too",
            path=str(store.path),
        )
    before = verify(arranged, VerifyOptions(), progress)
    plan = RepairPlan(
        store=store,
        arrangement=found,
        survey=survey,
        before=before,
        settings=read_settings(store),
        steps=[],
        patches=[],
        fields=[],
        gaps=[],
        rebuild_queues=set(before.broken_queues),
        rebuild_index=False,
        queue_sizes=_queue_sizes(store),
        index_shape=(indexfile.SLOTS, indexfile.ENTRIES),
        configs={},
        log_end=survey.end,
    )
    _plan_files(plan)
    _plan_fields(plan)
    _plan_damages(plan)
    _plan_tail(plan)
    _plan_queues(plan)
    _plan_index(plan)
    _plan_configs(plan)
    _plan_markers(plan)
    return plan


def _say(plan: RepairPlan, action: str, target: object, detail: str, **place: int) -> None:
    plan.steps.append(Step(action=action, target=str(target), detail=detail, **place))


def _plan_files(plan: RepairPlan) -> None:
    """Files under a wrong name, doubles, wrong lengths, gaps."""
    found = plan.arrangement
    for file in found.moved:
        home = next(f.start for f in found.files if f.path == file.path)
        _say(plan, "rename", file.path, f"its records say that it begins at {home}")
    for file in found.doubles:
        _say(plan, "leaveOut", file.path, "its records stand in another file already")
    for path in plan.store.strange_log_names():
        _say(plan, "leaveOut", path, "not named after a physical offset: brokers do not start")
    last = max((file.start for file in found.files if file.start < plan.log_end), default=0)
    for file in found.files:
        if file.length != found.size and file.start <= last:
            detail = f"{file.length} bytes become {found.size}"
            _say(plan, "resize", file.path, detail, physical_offset=file.start + file.length)
    starts = {file.start for file in found.files}
    first = min(starts, default=0)
    plan.gaps = [start for start in range(first, last, found.size) if start not in starts]
    for start in plan.gaps:
        _say(
            plan,
            "insertFile",
            f"commitlog/{start:020d}",
            "the file is missing: an empty one closes the gap, its messages are lost",
            physical_offset=start,
            length=found.size,
        )


def _plan_fields(plan: RepairPlan) -> None:
    """Single fields of whole records that another file tells.

    A record's own physical offset, where it stands between good ones and a unit leads to it; its
    queue and queue offset, where a unit of the right size leads to it and none does where the
    record says it belongs.
    """
    with LogReader(Arranged(plan.store, plan.arrangement.files)) as log:
        for row in plan.before.damages:
            at = row.physical_offset
            if row.kind != "position" or at is None or row.length is None:
                continue
            is_single = (at, at + row.length) in plan.survey.bad_parts(at - 1, at + row.length + 1)
            if is_single and _has_unit(plan, row):
                plan.fields.append((at + _OWN_AT, _LONG.pack(at)))
                _say(
                    plan,
                    "setField",
                    row.path,
                    f"physicalOffset becomes {at}: {row.detail}",
                    physical_offset=at,
                    length=row.length,
                )
        for misfit in plan.before.misfits:
            place = log.record(misfit.physical_offset)
            if place is None:
                continue
            unqueued = place[1].sys_flag & TRANSACTION_PREPARED
            if unqueued or not _is_at_home(plan, place[1]):
                _plan_header(plan, misfit, place[1])
        for at, moment in plan.survey.timeless.items():
            place = log.record(at)
            if place is not None:
                _plan_time(plan, place[1], moment)


def _plan_time(plan: RepairPlan, record: LogRecord, moment: int) -> None:
    """A storeTimestamp that is no time: searches and an index cannot live with it."""
    at = record.physical_offset + RECORD.offset("storeTimestamp")
    at += _IPV6_MORE * bool(record.sys_flag & BORNHOST_V6)
    plan.fields.append((at, _LONG.pack(moment)))
    _say(
        plan,
        "setField",
        f"{record.topic.decode('utf-8', 'replace')}/{record.queue_id}",
        f"storeTimestamp {record.store_timestamp} is no time: it becomes {moment}, that of the"
        " record beside it",
        physical_offset=record.physical_offset,
        length=record.total_size,
    )


def _plan_header(plan: RepairPlan, misfit: Misfit, record: LogRecord) -> None:
    topic = misfit.topic.encode("utf-8", "surrogateescape")
    at = record.physical_offset
    changes = []
    if record.topic != topic and len(record.topic) == len(topic):
        end = at + record.total_size - len(record.properties) - 2
        changes.append(("topic", end - len(topic), topic))
    if record.queue_id != misfit.queue_id:
        changes.append(("queueId", at + _QUEUE_ID_AT, _INT.pack(misfit.queue_id)))
    if record.queue_offset != misfit.queue_offset:
        changes.append(("queueOffset", at + _QUEUE_OFFSET_AT, _LONG.pack(misfit.queue_offset)))
    if record.sys_flag & TRANSACTION_PREPARED:
        # Prepared and rollback records are in no queue; without this bit they are what is.
        flags = record.sys_flag & ~TRANSACTION_PREPARED
        changes.append(("sysFlag", at + _SYS_FLAG_AT, _INT.pack(flags)))
    # One field is damaged, not two: else the unit is no witness.
    if len(changes) != 1 or (record.topic != topic and changes[0][0] != "topic"):
        return
    name, place, data = changes[0]
    plan.fields.append((place, data))
    _say(
        plan,
        "setField",
        f"{misfit.topic}/{misfit.queue_id}",
        f"{name} of the record becomes what the unit at queue offset {misfit.queue_offset} says",
        physical_offset=at,
        length=record.total_size,
    )


def _unit_at(plan: RepairPlan, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int]:
    """Physical offset and size in a unit, (-1, -1) where there is none."""
    for queue in plan.store.queue_files(topic, queue_id):
        for path, start in queue.files:
            at = queue_offset * UNIT_SIZE - start
            if queue.kind == "classic" and 0 <= at < path.stat().st_size - UNIT_SIZE + 1:
                with open_bytes(path) as file:
                    unit = UNIT_STRUCT.unpack_from(file.data, at)
                    return int(unit[0]), int(unit[1])
    return -1, -1


def _is_at_home(plan: RepairPlan, record: LogRecord) -> bool:
    """Whether the unit where a record says it belongs leads to it."""
    topic = record.topic.decode("utf-8", "surrogateescape")
    unit = _unit_at(plan, topic, record.queue_id, record.queue_offset)
    return unit == (record.physical_offset, record.total_size)


def _has_unit(plan: RepairPlan, row: DamageRow) -> bool:
    """Whether the unit of a record that says another physical offset leads to where it stands."""
    file = next(
        f
        for f in plan.arrangement.files
        if f.start <= (row.physical_offset or 0) < f.start + f.length
    )
    assert row.physical_offset is not None
    with open_bytes(file.path) as opened:
        record = read_record(opened.data, row.physical_offset - file.start, file.start)
    return _is_at_home(plan, record)


def _plan_damages(plan: RepairPlan) -> None:
    """Parts of the log that no walk gets over."""
    size = plan.arrangement.size
    for file in plan.arrangement.files:
        end = file.start + size
        for begin, stop in plan.survey.bad_parts(file.start, min(end, plan.log_end)):
            why = next(
                (
                    row.kind
                    for row in plan.before.damages
                    if row.physical_offset is not None
                    and begin <= row.physical_offset < stop
                    and row.kind != "fileSize"
                ),
                "damage",
            )
            if (begin + _OWN_AT, _LONG.pack(begin)) in plan.fields:
                continue
            if stop == end and stop - begin >= _BLANK_LEAST:
                how, detail = "blank", f"{why}: the file ends here with a blank record"
            elif stop - begin >= LEAST:
                how, detail = "fill", f"{why}: covered by a filler record, kept under damaged/"
            else:
                how, detail = "", f"{why}: too short for a filler record, stays as it is"
            if how:
                plan.patches.append((begin, stop, how))
            _say(
                plan,
                "cover" if how else "leave",
                file.path,
                detail,
                physical_offset=begin,
                length=stop - begin,
            )


def _plan_tail(plan: RepairPlan) -> None:
    """What stands behind the last whole record."""
    for file in plan.arrangement.files:
        end = plan.log_end
        if file.start + file.length <= end:
            continue
        begin = max(end - file.start, 0)
        with open_bytes(file.path) as opened:
            rest = bytes(opened.data[begin : opened.data_end]).rstrip(b"\0")
        if rest:
            _say(
                plan,
                "cut",
                file.path,
                "the torn end of the log becomes zeros, kept under damaged/",
                physical_offset=file.start + begin,
                length=len(rest),
            )


def _log_changes(plan: RepairPlan) -> bool:
    is_shorter = plan.log_end < plan.before.summary.max_physical_offset
    return bool(
        plan.patches
        or plan.fields
        or plan.gaps
        or plan.arrangement.moved
        or plan.survey.torn
        or is_shorter
    )


def _plan_queues(plan: RepairPlan) -> None:
    if _log_changes(plan):
        plan.rebuild_queues |= {(item.topic, item.queue_id) for item in plan.before.queues}
    behind = plan.before.behind_queues - plan.rebuild_queues
    plan.rebuild_queues |= behind
    reasons = {row.kind for row in plan.findings}
    for topic, queue_id in sorted(plan.rebuild_queues):
        why = "the log was mended" if _log_changes(plan) else "units and records disagree"
        if (topic, queue_id) in behind:
            why = "its last records are not dispatched"
        if "queueMissing" in reasons and not any(
            (item.topic, item.queue_id) == (topic, queue_id) for item in plan.before.queues
        ):
            why = "the queue is missing"
        _say(plan, "rebuildQueue", f"{topic}/{queue_id}", why)


def _plan_index(plan: RepairPlan) -> None:
    paths = plan.store.index_files()
    for path in paths:
        if not path.name.isdigit():
            _say(plan, "leaveOut", path, "not named after a time")
    shapes: list[tuple[int, int]] = []
    for path in paths:
        try:
            with open_bytes(path) as file:
                slots = shape_of(file.data, 0)
                if slots:
                    room = len(file) - indexfile.file_size(slots, 0)
                    shapes.append((slots, room // indexfile.ENTRY_SIZE))
        except StoreError:
            continue
    told = plan.settings
    if shapes:
        plan.index_shape = max(shapes, key=shapes.count)
    else:
        plan.index_shape = (
            told.number("maxHashSlotNum") or indexfile.SLOTS,
            told.number("maxIndexNum") or indexfile.ENTRIES,
        )
    wrong = sorted({row.kind for row in plan.findings} & INDEX_KINDS)
    stale = any(row.kind == "stale" and "index" in row.path for row in plan.findings)
    if told.index_enabled is False or not plan.before.summary.keys:
        return
    summary = plan.before.summary
    # The copy is as after a clean stop: no start goes on with what a crash left undone.
    behind = summary.state == "crashed" and summary.keys_indexed < summary.keys
    plan.rebuild_index = bool(wrong or stale or behind or (_log_changes(plan) and paths))
    if plan.rebuild_index:
        why = ", ".join(wrong) or (
            "the log was mended" if _log_changes(plan) else "the last keys are missing"
        )
        _say(
            plan,
            "rebuildIndex",
            "index/",
            f"{why}: {plan.before.summary.keys} keys, files of {plan.index_shape[0]} slots and"
            f" {plan.index_shape[1]} entries",
        )


def _plan_configs(plan: RepairPlan) -> None:
    """Configuration files: kept, restored from their backups, or made from the log."""
    folder = plan.store.folder(state.CONFIG_DIR)
    if folder is None or not folder.is_dir():
        return
    names = {
        path.name.removesuffix(BACKUP)
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith(".tmp")
    }
    names.add(config.TOPICS)
    for name in sorted(names):
        good = _readable(folder / name)
        spare = _readable(folder / (name + BACKUP))
        if good:
            plan.configs[name] = "keep"
        elif spare:
            plan.configs[name] = "restore"
            _say(plan, "restoreConfig", folder / name, f"from {name}{BACKUP}")
        elif name == config.TOPICS:
            plan.configs[name] = "topics"
            topics = {item.topic for item in plan.before.queues}
            _say(
                plan,
                "makeTopics",
                folder / name,
                f"{len(topics)} topics with the queues the log knows of; permissions and"
                " attributes are defaults",
            )
        else:
            plan.configs[name] = "drop"
            _say(plan, "leaveOut", folder / name, "neither it nor its backup can be read")
    wrong = {row.kind for row in plan.findings}
    for kind, name in (("offset", config.CONSUMER_OFFSET), ("delayOffset", config.DELAY_OFFSET)):
        # A record that is covered or cut was counted as one when the offsets were judged.
        if kind in wrong or (_log_changes(plan) and name in plan.configs):
            _say(
                plan,
                "clampOffsets",
                folder / name,
                "offsets beyond the ends of their queues become these ends: nothing new is skipped",
            )


def _readable(path: Any) -> bool:
    """Whether a broker could read a configuration file."""
    from broker.common.java_json import loads

    try:
        data = read_all(path)
        if data is None or not data.strip():
            return False
        if path.name.startswith("timercheck"):
            return len(data) > 0
        return isinstance(loads(data), dict)
    except (StoreError, RemoteProtocolError):
        return False


def _plan_markers(plan: RepairPlan) -> None:
    root = plan.store.root
    assert root is not None
    wrong = {row.kind for row in plan.findings if row.severity != NOTICE}
    if "checkpoint" in wrong or _log_changes(plan) or plan.rebuild_index:
        _say(plan, "writeCheckpoint", root / state.CHECKPOINT, "times of the last message")
    if "state" in wrong or plan.before.summary.state == "crashed":
        _say(
            plan,
            "leaveOut",
            root / state.ABORT,
            "the copy is whole: a broker need not recover, which would drop its newest IndexFile",
        )


def _queue_sizes(store: StoreDirectory) -> tuple[int, int]:
    """Lengths of the files of classic and batch queues."""
    settings = read_settings(store)
    usual = usual_lengths(store)
    return (
        usual["classic"] or settings.number("mappedFileSizeConsumeQueue") or FILE_SIZE,
        usual["batch"] or settings.number("mapperFileSizeBatchConsumeQueue") or BATCH_FILE_SIZE,
    )
