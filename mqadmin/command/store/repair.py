"""``mqadmin store``: repair, recover."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DAMAGED, MOVED, PARTLY
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.declare import Argument, Option, Options
from mqadmin.command.framework.values import whole
from mqadmin.command.store.damage_report import DamageReport
from mqadmin.command.store.directory.termination import interrupted_by_sigterm
from mqadmin.command.store.noun import NOUN, BodyForm, Raw, Topic, refuse_raw_alone
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.progress import Progress
from mqadmin.output.view import View
from mqadmin.repair import store_repair
from mqadmin.repair.divergence import cut, find_divergence
from mqadmin.repair.new_store import plan_store, recover_store
from mqadmin.repair.recover import SalvagedRows

REPAIR_PLAN = View(
    "store.repair",
    ("action", "target", "physicalOffset", "length", "detail"),
)
REPAIRED = View("store.repair.result", single=True)
RECOVERED = View(
    "store.recover",
    ("topic", "queueId", "queueOffset", "physicalOffset", "storeTime", "tags", "keys", "body"),
)
NEW_STORE = View("store.recover.result", single=True)

DIVERGENCE = View("store.repair.divergence", single=True)
CUT = View("store.repair.cut", single=True)
NEW_STORE_PLAN = View("store.recover.plan", single=True)

Store = Annotated[str, Argument("DIR", help="A store directory.", complete="file")]
Output = Annotated[
    str | None,
    Option("--out", metavar="DIR", help="Output directory; it must not exist.", complete="file"),
]


class RepairOptions(Options):
    """Options of ``mqadmin store repair``."""

    path: Store
    output: Output = None
    in_place: Annotated[
        bool,
        Option("--in-place", help="Replace the store with the repaired copy; needs --yes."),
    ] = False
    backup: Annotated[
        str | None,
        Option(
            "--backup",
            metavar="DIR",
            help="With --in-place: path of the old directory; default: next to the store.",
            complete="file",
        ),
    ] = None
    links: Annotated[
        bool,
        Option(
            "--links/--copies",
            help="Hard-link files no longer written, or copy all.",
        ),
    ] = True
    diverged_at: Annotated[
        int | None,
        Option(
            "--diverged-at",
            metavar="OFFSET",
            help="Cut the log at this physical offset; its records are kept in a file.",
            parse=whole,
        ),
    ] = None
    records: Annotated[
        str | None,
        Option(
            "--records",
            metavar="FILE",
            help="With --diverged-at: the file for the records; default: next to the store.",
            complete="file",
        ),
    ] = None


@NOUN.verb(
    "repair",
    view=(REPAIR_PLAN, REPAIRED, DIVERGENCE, CUT),
    changes=True,
    examples=[
        "mqadmin store repair /data/store",
        "mqadmin store repair /data/store --out /data/store.repaired",
        "mqadmin store repair /data/store --in-place --yes",
        "mqadmin store repair /data/store --diverged-at 1234567 --in-place --yes",
    ],
)
def repair(session: Session, given: RepairOptions) -> None:
    """Repair a store into a copy; without --out and --in-place only the plan is printed.

    Valid records keep their physical offsets. Damaged regions of the log are replaced by filler
    records and saved in damaged/, a torn end is truncated, gaps of missing files are closed.
    Invalid ConsumeQueues and IndexFiles are rebuilt from the log, configuration files are restored
    from their backups, the checkpoint is rewritten. The units of lost messages point to the next
    message, so that consumers continue; lost messages are counted by topic and queue. Messages of
    deleted topics are not restored. The copy is verified; a broker opens it as after a clean stop.
    A store in use by a broker is refused.

    --diverged-at is for the store of a former master whose log differs from the new master's from
    that offset on (mqadmin broker demote and store diff name it). The records from there on are
    written to a file, as store export --body base64 writes them, and the log is cut, so that the
    broker can follow the new master.
    """
    if given.output is not None and given.in_place:
        raise UsageFault("--out and --in-place exclude each other")
    if given.in_place and not (session.yes or session.dry_run):
        raise UsageFault(
            "--in-place needs --yes; nothing was changed",
            "--out DIR writes a copy and does not change the store",
        )
    if given.diverged_at is not None:
        places = (given.output, given.backup, given.records)
        _cut(session, given.path, given.diverged_at, *places, in_place=given.in_place)
        return
    if given.records is not None:
        raise UsageFault("--records requires --diverged-at")
    with Progress() as progress:
        plan = store_repair.make_plan(StoreDirectory(given.path), progress.show)
    if session.dry_run or (given.output is None and not given.in_place):
        _show_plan(session, plan)
        return
    if given.in_place and not plan.steps:
        session.note("nothing to repair")
        return

    with interrupted_by_sigterm(), Progress() as progress:
        if given.in_place:
            spare = FilePath(given.backup or _backup_name(given.path))
            result = store_repair.repair_in_place(
                plan, spare, links=given.links, progress=progress.show
            )
        else:
            result = store_repair.repair(
                plan, FilePath(given.output or ""), links=given.links, progress=progress.show
            )
    _show_result(session, result)


def _cut(
    session: Session,
    path: str,
    diverged_at: int,
    output: str | None,
    backup: str | None,
    records: str | None,
    *,
    in_place: bool,
) -> None:
    """Cut the log of a former master; without --out and --in-place only the plan is printed."""
    store = StoreDirectory(path)
    found = find_divergence(store, diverged_at)
    if session.dry_run or (output is None and not in_place):
        session.emit_one(DIVERGENCE, found)
        if session.dry_run:
            session.end_dry_run()
        else:
            session.note("this is the plan; --in-place or --out DIR applies it")
        return
    stem = os.path.realpath(output or path)
    with interrupted_by_sigterm(), Progress() as progress:
        result = cut(
            store,
            found,
            output=FilePath(output) if output is not None else None,
            backup=FilePath(backup or _backup_name(path)),
            records_path=FilePath(records or f"{stem}.diverged-{found.cut_at}.ndjson"),
            progress=progress.show,
        )
    session.emit_one(CUT, result)
    session.note(
        f"{found.records} records are in {result.records_path}; the log ends at {found.cut_at}"
    )


def _backup_name(path: str) -> str:
    stem = os.path.realpath(path)
    return f"{stem}.before-repair-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"


def _show_plan(session: Session, plan: Any) -> None:
    session.emit(REPAIR_PLAN, plan.steps, quiet=True)
    _note_losses(session, plan.before.losses)
    if not plan.steps:
        session.note("nothing to repair")
    elif session.is_table and not session.dry_run:
        session.note("this is the plan; --out DIR applies it to a copy")
    if session.dry_run:
        session.end_dry_run()


def _show_result(session: Session, result: Any) -> None:
    session.emit_one(REPAIRED, result)
    _note_losses(session, result.lost)
    if not result.ok:
        session.report(
            MOVED,
            "store",
            f"{result.output} does not verify: {len(result.findings)} findings are left",
            f"mqadmin store verify {result.output} lists them",
        )


@NOUN.verb(
    "recover",
    view=(RECOVERED, NEW_STORE, NEW_STORE_PLAN),
    changes=True,
    examples=[
        "mqadmin store recover /data/store --body base64 -o ndjson > messages.ndjson",
        "mqadmin store recover lost+found/4711 --body text",
        "mqadmin store recover /data/store --out /data/store.new",
    ],
)
def recover(
    session: Session,
    sources: Annotated[
        list[str], Argument("DIR|FILE", help="Stores, folders or files.", complete="file")
    ],
    output: Output = None,
    file_size: Annotated[
        int,
        Option(
            "--file-size",
            metavar="N",
            help="With --out: length of CommitLog files in bytes (mappedFileSizeCommitLog).",
            parse=whole,
        ),
    ] = 1 << 30,
    topic: Topic = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    damaged: Annotated[
        bool, Option("--damaged", help="Include messages with damaged bodies.")
    ] = False,
    body: BodyForm = "none",
    raw: Raw = False,
) -> None:
    """Salvage messages from damaged, orphaned or single CommitLog files.

    Every complete record is read: in a single file, in a part of a file, after zeroed pages and
    flipped bits. Without --out the messages are printed (-o ndjson for programs); with it they are
    written to a new store, with new physical and queue offsets. Unreadable regions are reported
    with file, position and length, lost messages by topic and queue as far as ConsumeQueues, index
    or queueEnds.json contain them; the exit status is then 7. Messages of deleted topics are
    printed, but not written to a new store.
    """
    if not sources:
        raise UsageFault("store recover needs a directory or a file")
    if output is not None and (damaged or raw or body != "none"):
        raise UsageFault(
            "--damaged, --body and --raw apply to printed messages",
            "omit them: a new store contains every complete message with its body",
        )
    refuse_raw_alone(body, raw)
    if output is None and session.dry_run:
        raise UsageFault("--dry-run requires --out", "nothing is written without it")

    begin, end = window(session, begin, end, time)
    query = Query(topic=topic, begin_ms=begin, end_ms=end, body=body, raw=raw)
    if output is not None:
        _new_store(session, [FilePath(source) for source in sources], output, file_size, query)
        return
    rows = SalvagedRows([FilePath(source) for source in sources], query, bad_bodies=damaged)
    lost: list[Any] = []

    def rows_then_losses() -> Iterator[Any]:
        yield from rows
        for row in rows.losses:
            damage.add(row)
        lost.extend(rows.lost())
        damage.outcome.errors += [_loss_report(loss).fields() for loss in lost]

    with DamageReport(session) as damage:
        session.emit(RECOVERED, rows_then_losses(), damage.outcome, nothing="no message was found")
    if session.is_machine:
        for loss in lost:
            emit_error(_loss_report(loss), form=session.form)
    _report_losses(session, lost)
    if not session.is_machine:
        session.note(f"{rows.count} messages read, {rows.lost_bytes} bytes could not be read")


def _new_store(
    session: Session, sources: list[Any], output: str, file_size: int, query: Any
) -> None:

    if session.dry_run:
        plan = plan_store(sources, FilePath(output), file_size=file_size, query=query)
        session.emit_one(NEW_STORE_PLAN, plan)
        _report_losses(session, plan.lost)
        if plan.losses:
            session.status = DAMAGED
        session.end_dry_run()
        return
    with interrupted_by_sigterm():
        result = recover_store(sources, FilePath(output), file_size=file_size, query=query)
    session.emit_one(NEW_STORE, result)
    _report_losses(session, result.lost)
    if result.losses:
        if not session.is_machine:
            session.note(f"{result.lost_bytes} bytes could not be read as records")
        session.status = DAMAGED
    if not result.ok:
        session.report(
            PARTLY, "store", f"{output} does not verify", f"mqadmin store verify {output}"
        )


def _report_losses(session: Session, losses: Sequence[Any]) -> None:
    """Report the lost messages; the status is then 7."""
    _note_losses(session, losses)
    if losses:
        session.status = DAMAGED


def _note_losses(session: Session, losses: Sequence[Any]) -> None:
    """Report the lost messages, one line per queue; JSON output already contains them."""
    if not session.is_machine:
        for loss in losses:
            session.note(f"lost: {loss.text}")


def _loss_report(loss: Any) -> ErrorReport:
    return ErrorReport("lost", f"lost: {loss.text}")
