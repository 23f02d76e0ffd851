"""``mqadmin dlq``: stats, export."""

from typing import TYPE_CHECKING, Annotated

from mqadmin.admin.dlq.select import DeadLetterFilter
from mqadmin.admin.dlq.summary import count_dead_letters, write_dead_letters
from mqadmin.command.dead_letters.filters import (
    Exceptions,
    Keys,
    Origin,
    Properties,
    Tags,
    dead_letter_filter,
)
from mqadmin.command.dlq import DLQ_SHOW, NOUN, REPLAY_LIMIT
from mqadmin.command.execution.failure import target_report
from mqadmin.command.execution.found import emit_found
from mqadmin.command.execution.online import body_form, dead_letters
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DONE, NO, PARTLY
from mqadmin.command.execution.window import Begin, End, Time, window
from mqadmin.command.framework.common_options import Group
from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.values import count
from mqadmin.output.view import Outcome, View

if TYPE_CHECKING:
    from mqadmin.message_row import MessageRow

DLQ_STATS = View(
    "dlq.stats",
    (
        *("originTopic", "tags", "messages", "bodyBytes", "maxReconsumeTimes"),
        *("oldestTime", "newestTime", "exceptions", "exception"),
    ),
)
RAISE = "raise --limit"
DLQ_EXPORT = View("dlq.export", DLQ_SHOW.columns)

Limit = Annotated[
    int | None,
    Option(
        "--limit",
        "--max",
        "-m",
        metavar="N",
        help=f"Maximum number of dead letters read; default {REPLAY_LIMIT}.",
        parse=count,
    ),
]


@NOUN.verb(
    "stats",
    view=DLQ_STATS,
    examples=["mqadmin dlq stats billing", "mqadmin dlq stats billing --since -1d -o json"],
)
def stats(
    session: Session,
    group: Group,
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    limit: Limit = None,
) -> None:
    """Count the dead letters of a group by origin topic and tag.

    'exception' is the most frequent text of a property named like exception or error: RocketMQ
    itself stores no cause, applications may.
    """
    begin, end = window(session, begin, end, time)
    everything = DeadLetterFilter()
    found = _read(session, DLQ_STATS, group, (begin, end), limit, everything, body="none")
    if found is not None:
        rows, outcome = found
        session.emit(DLQ_STATS, count_dead_letters(group, rows), outcome, hint=RAISE)


@NOUN.verb(
    "export",
    view=DLQ_EXPORT,
    examples=[
        "mqadmin dlq export billing --out dead.ndjson",
        "mqadmin dlq export billing --out paid.ndjson --tag paid --origin orders --since -1d",
    ],
)
def export(
    session: Session,
    group: Group,
    out: Annotated[
        str,
        Option(
            "--out", metavar="FILE", help="New file, one JSON object per line.", complete="file"
        ),
    ],
    begin: Begin = None,
    end: End = None,
    time: Time = None,
    tags: Tags = None,
    keys: Keys = None,
    properties: Properties = None,
    origin: Origin = None,
    exception: Exceptions = None,
    limit: Limit = None,
) -> None:
    """Write the dead letters of a group to a file, with their bodies.

    The originals stay in the DLQ. 'dlq replay --from FILE' sends them.
    """
    begin, end = window(session, begin, end, time)
    chosen = dead_letter_filter(tags, keys, properties, origin, exception)
    found = _read(session, DLQ_EXPORT, group, (begin, end), limit, chosen, body="base64")
    if found is None:
        return
    rows, outcome = found
    write_dead_letters(out, rows)
    if not session.is_table:
        session.emit(DLQ_EXPORT, rows, outcome, hint=RAISE)
    elif outcome.truncated:
        session.report(DONE if outcome.asked else PARTLY, "truncated", outcome.reason, RAISE)
    session.note(f"{len(rows)} dead letters of group {group} are in {out}")


def _read(
    session: Session,
    view: View,
    group: str,
    period: tuple[int | None, int | None],
    limit: int | None,
    chosen: DeadLetterFilter,
    *,
    body: str,
) -> "tuple[list[MessageRow], Outcome] | None":
    """Return the chosen dead letters; None if there are none, which is reported (status 1).

    Brokers that failed are reported, a limit that was reached is left to the caller.
    """
    found = dead_letters(session.admin).show(
        group,
        max_items=limit or REPLAY_LIMIT,
        begin_ms=period[0] or 0,
        end_ms=period[1],
        body=body_form(body),
    )
    if found.kind != "found":
        emit_found(session, view, found)
        return None
    outcome = Outcome(
        truncated=found.truncated,
        asked=limit is not None,
        reason=f"only the first {len(found.items)} dead letters of the group were read",
        errors=[target_report(error).fields() for error in found.errors],
    )
    session.report_targets(found.errors, some_worked=True)
    rows = [row for row in found.items if chosen.test(row)]
    if rows:
        return rows, outcome
    session.emit(view, [], outcome, quiet=True, hint=RAISE)
    session.report(NO, "notFound", f"none of {len(found.items)} dead letters of {group} matches")
    return None
