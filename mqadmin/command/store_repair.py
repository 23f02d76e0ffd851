"""``mqadmin store``: repair, recover."""

import os
from typing import Annotated, Any

from mqadmin.command.declare import Argument, Option
from mqadmin.command.failure import DAMAGED, MOVED, PARTLY, UsageFault
from mqadmin.command.session import Session
from mqadmin.command.store import NOUN, BodyForm, Raw, Topic
from mqadmin.command.values import whole
from mqadmin.command.window import Begin, End, Time, window
from mqadmin.output.view import View

REPAIR_PLAN = View(
    "store.repair",
    "mqadmin.surgery.plan:Step",
    ("action", "target", "physicalOffset", "length", "detail"),
)
REPAIRED = View("store.repair.result", "mqadmin.surgery.repair:RepairResult", single=True)
RECOVERED = View(
    "store.recover",
    "mqadmin.message_row:MessageRow",
    ("topic", "queueId", "queueOffset", "physicalOffset", "storeTime", "tags", "keys", "body"),
)
NEW_STORE = View("store.recover.result", "mqadmin.surgery.new_store:NewStore", single=True)

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
    message, so consumers go on. The copy is verified before it is called repaired; a broker opens
    it as after a clean stop. Not while a broker runs on the store.
    """
    from mqadmin.inspector.directory import StoreDirectory
    from mqadmin.output.progress import Progress
    from mqadmin.surgery import repair as surgery

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
    from pathlib import Path as FilePath

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
    import time

    stem = os.path.realpath(path)
    return f"{stem}.before-repair-{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"


def _show_plan(session: Session, plan: Any) -> None:
    session.emit(REPAIR_PLAN, plan.steps, quiet=True)
    if not plan.steps:
        session.note("nothing to repair")
    elif session.is_table and not session.dry_run:
        session.note("this is the plan; --output DIR carries it out into a copy")
    if session.dry_run:
        session.end_dry_run()


def _show_result(session: Session, result: Any) -> None:
    session.emit_thing(REPAIRED, result)
    if not result.ok:
        session.say(
            MOVED,
            "store",
            f"{result.output} does not verify: {len(result.findings)} findings are left",
            f"mqadmin store verify {result.output} lists them",
        )


@NOUN.verb(
    "recover",
    view=(RECOVERED, NEW_STORE),
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
    What is lost is counted on stderr with file, place and length, and by topic and queue as far
    as ConsumeQueues know it; the status is then 7.
    """
    if not sources:
        raise UsageFault("store recover needs a directory or a file")
    if output is not None and (damaged or raw or body != "none"):
        raise UsageFault(
            "--damaged, --body and --raw are for printed messages",
            "leave them out: a new store holds every whole message, with its body",
        )
    from pathlib import Path as FilePath

    from mqadmin.inspector.directory import Query
    from mqadmin.surgery.recover import RescuedRows

    begin, end = window(session, begin, end, time)
    query = Query(topic=topic, begin_ms=begin, end_ms=end, body=body, raw=raw)
    if output is not None:
        _new_store(session, [FilePath(source) for source in sources], output, file_size, query)
        return
    rows = RescuedRows([FilePath(source) for source in sources], query, bad_bodies=damaged)
    session.emit(RECOVERED, rows, nothing="no message was found")
    _tell_losses(session, rows.losses, rows.lost_messages())
    session.note(f"{rows.count} messages read, {rows.lost_bytes} bytes could not be read")


def _new_store(
    session: Session, sources: list[Any], output: str, file_size: int, query: Any
) -> None:
    from pathlib import Path as FilePath

    from mqadmin.surgery.new_store import recover_store

    result = recover_store(sources, FilePath(output), file_size=file_size, query=query)
    session.emit_thing(NEW_STORE, result)
    if result.losses:
        session.note(f"{result.lost_bytes} bytes could not be read as records")
        session.status = DAMAGED
    if not result.ok:
        session.say(PARTLY, "store", f"{output} does not verify", f"mqadmin store verify {output}")


def _tell_losses(session: Session, losses: Any, lost: Any) -> None:
    """What is lost, by place; and by message, where a ConsumeQueue knows."""
    from mqadmin.command.damages import Damages
    from mqadmin.output.view import Outcome

    damages = Damages(Outcome())
    for row in losses:
        damages.add(row)
    damages.report(session)
    counts: dict[tuple[str, int], list[int]] = {}
    for message in lost:
        counts.setdefault((message.topic, message.queue_id), []).append(message.queue_offset)
    for (topic, queue_id), offsets in sorted(counts.items()):
        span = f"{min(offsets)} to {max(offsets)}" if len(offsets) > 1 else str(offsets[0])
        session.note(f"lost: {len(offsets)} messages of {topic}/{queue_id}, queue offsets {span}")
