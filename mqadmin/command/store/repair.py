"""``mqadmin store``: repair, recover."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

from mqadmin.command.declare import Argument, Option
from mqadmin.command.failure import UsageFault
from mqadmin.command.session import Session
from mqadmin.command.status import DAMAGED, MOVED, PARTLY
from mqadmin.command.store.damage_report import Damages
from mqadmin.command.store.noun import NOUN, BodyForm, Raw, Topic
from mqadmin.command.values import whole
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.progress import Progress
from mqadmin.output.view import Outcome, View
from mqadmin.repair import store_repair as surgery
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

NEW_STORE_PLAN = View("store.recover.plan", single=True)

Store = Annotated[str, Argument("DIR", help="A store directory.", complete="file")]
Output = Annotated[
    str | None,
    Option(
        "--output", metavar="DIR", help="Make this directory; it must not exist.", complete="file"
    ),
]


@NOUN.verb(
    "repair",
    view=(REPAIR_PLAN, REPAIRED),
    changes=True,
    examples=[
        "mqadmin store repair /data/store",
        "mqadmin store repair /data/store --output /data/store.repaired",
        "mqadmin store repair /data/store --in-place --yes",
    ],
)
def repair(
    session: Session,
    path: Store,
    output: Output = None,
    in_place: Annotated[
        bool,
        Option("--in-place", help="Exchange the repaired copy for the store; needs --yes."),
    ] = False,
    backup: Annotated[
        str | None,
        Option(
            "--backup",
            metavar="DIR",
            help="With --in-place: where the old directory stays; beside it by default.",
            complete="file",
        ),
    ] = None,
    links: Annotated[
        bool,
        Option("--links/--copies", help="Link files that nobody writes to again, or copy all."),
    ] = True,
) -> None:
    """Make a damaged store whole again, as a copy; alone it shows the plan and writes nothing.

    Good records keep their physical offsets. Damaged parts of the log are covered by filler
    records and kept below damaged/, a torn end is cut, missing files are closed up. ConsumeQueues
    and IndexFiles that are wrong are built anew from the log, configuration comes back from its
    backups, the checkpoint is written anew. Where messages are lost, their units lead to the next
    message, so consumers go on; lost messages are counted by topic and queue. Records of a topic
    that was deleted and created again are not brought back. The copy is verified before it is
    called repaired; a broker opens it as after a clean stop. Not while a broker runs on the store.
    """
    if output is not None and in_place:
        raise UsageFault("--output and --in-place exclude each other")
    if in_place and not (session.yes or session.dry_run):
        raise UsageFault(
            "--in-place needs --yes; nothing was changed",
            "--output DIR writes a copy and leaves the store as it is",
        )
    with Progress() as progress:
        plan = surgery.make_plan(StoreDirectory(path), progress.show)
    if session.dry_run or (output is None and not in_place):
        _show_plan(session, plan)
        return
    if in_place and not plan.steps:
        session.note("nothing to repair")
        return

    with Progress() as progress:
        if in_place:
            spare = FilePath(backup or _backup_name(path))
            result = surgery.repair_in_place(plan, spare, links=links, progress=progress.show)
        else:
            result = surgery.repair(
                plan, FilePath(output or ""), links=links, progress=progress.show
            )
    _show_result(session, result)


def _backup_name(path: str) -> str:
    stem = os.path.realpath(path)
    return f"{stem}.before-repair-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"


def _show_plan(session: Session, plan: Any) -> None:
    session.emit(REPAIR_PLAN, plan.steps, quiet=True)
    _note_losses(session, plan.before.losses)
    if not plan.steps:
        session.note("nothing to repair")
    elif session.is_table and not session.dry_run:
        session.note("this is the plan; --output DIR carries it out into a copy")
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
        "mqadmin store recover /data/store --output /data/store.new",
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
            help="With --output: length of its CommitLog files (mappedFileSizeCommitLog).",
            parse=whole,
        ),
    ] = 1 << 30,
    topic: Topic = None,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    damaged: Annotated[
        bool, Option("--damaged", help="Also messages whose bodies are not what was stored.")
    ] = False,
    body: BodyForm = "none",
    raw: Raw = False,
) -> None:
    """Read messages out of damaged, orphaned or single CommitLog files.

    Whatever is a whole record counts: in a file without its neighbours, in a piece of one, behind
    zeroed pages and flipped bits. Without --output the messages are printed (-o ndjson for
    programs); with it they become a new clean store, with physical and queue offsets of its own.
    What is lost is counted with file, place and length, and by topic and queue as far as
    ConsumeQueues, the index or queueEnds.json know it; the status is then 7. Messages that were
    deleted with their topic are printed, but not written into a new store.
    """
    if not sources:
        raise UsageFault("store recover needs a directory or a file")
    if output is not None and (damaged or raw or body != "none"):
        raise UsageFault(
            "--damaged, --body and --raw are for printed messages",
            "leave them out: a new store holds every whole message, with its body",
        )
    if output is None and session.dry_run:
        raise UsageFault("--dry-run belongs to --output", "nothing is written without it")

    begin, end = window(session, begin, end, time)
    query = Query(topic=topic, begin_ms=begin, end_ms=end, body=body, raw=raw)
    if output is not None:
        _new_store(session, [FilePath(source) for source in sources], output, file_size, query)
        return
    rows = SalvagedRows([FilePath(source) for source in sources], query, bad_bodies=damaged)
    outcome = Outcome()
    damages = Damages(outcome)
    lost: list[Any] = []

    def rows_then_losses() -> Iterator[Any]:
        yield from rows
        for row in rows.losses:
            damages.add(row)
        lost.extend(rows.lost())
        outcome.errors += [_loss_report(loss).fields() for loss in lost]

    session.emit(RECOVERED, rows_then_losses(), outcome, nothing="no message was found")
    damages.report(session)
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
