"""``mqadmin consumer lag``."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from mqadmin.command.consumer import NOUN
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import all_lags, consumers
from mqadmin.command.execution.session import Session
from mqadmin.command.execution.status import DONE, NO
from mqadmin.command.framework.common_options import OnlyTopic
from mqadmin.command.framework.declare import Argument, Option, Options
from mqadmin.command.framework.values import duration_ms, interval_ms, whole
from mqadmin.output.view import DOCUMENT_FORMS, View

if TYPE_CHECKING:
    from mqadmin.admin.result import Listing

DEFAULT_DEADLINE_MS = 600_000

CONSUMER_LAG = View(
    "consumer.lag",
    (
        "topic",
        "brokerName",
        "queueId",
        "brokerOffset",
        "consumerOffset",
        "lag",
        "lagSeconds",
        "inflight",
        "lastTime",
        "clientId",
        "state",
    ),
    keep=("consumerOffset", "lag"),
)
CONSUMER_LAG_ALL = View(
    "consumer.lag.all",
    ("group", "topic", "queues", "lag", "maxLag", "noOffset", "lastTime", "state"),
    keep=("lag",),
)


class LagOptions(Options):
    """Options of ``mqadmin consumer lag``."""

    group: Annotated[
        str | None, Argument("GROUP", help="Name of the consumer group.", complete="group")
    ] = None
    every: Annotated[bool, Option("--all", help="All groups, one line per group and topic.")] = (
        False
    )
    topic: OnlyTopic = None
    clients: Annotated[
        bool, Option("--clients", "-s", help="Query each client for its assigned queues.")
    ] = False
    pop: Annotated[
        bool, Option("--pop", help="Count messages in flight by the check points of POP.")
    ] = False
    watch: Annotated[bool, Option("--watch", help="Repeat until Ctrl-C or --deadline.")] = False
    until: Annotated[
        int | None,
        Option(
            "--until",
            metavar="N",
            help="Repeat until the total lag is N or less; print the last state.",
            parse=whole,
        ),
    ] = None
    deadline: Annotated[
        int | None,
        Option(
            "--deadline",
            metavar="DUR",
            help="Longest time for --until (default 10m, then status 1) and --watch.",
            parse=duration_ms,
        ),
    ] = None
    interval: Annotated[
        int,
        Option(
            "--interval",
            metavar="DUR",
            help="Pause between rounds.",
            parse=interval_ms,
            shown="2s",
        ),
    ] = 2_000


@NOUN.verb(
    "lag",
    view=(CONSUMER_LAG, CONSUMER_LAG_ALL),
    examples=[
        "mqadmin consumer lag billing",
        "mqadmin consumer lag --all",
        "mqadmin consumer lag billing --until 0 --deadline 10m",
        "mqadmin consumer lag --all --watch --interval 5s",
        "mqadmin consumer lag billing --topic orders --clients -o json",
    ],
)
def show_lag(session: Session, given: LagOptions) -> None:
    """Show the lag of a group for each queue.

    A group that consumes by POP commits the offset when messages are popped: with --pop, inflight
    is the number of messages that were popped and are neither acknowledged nor delivered again.

    State 'noOffset': no offset was committed. 'ahead': the committed offset is past the end of
    the queue. 'belowMin': it is below the min offset, its messages are deleted.

    --all asks each broker once, all in parallel; a broker with an offset 0, which may also mean
    that nothing is committed, once more. Where nothing is committed lag is null, never 0. Queues
    that can only be read any more are not included: query those groups by name.
    --until ends with status 0 when the total is known and small enough: a broker that does not
    respond, or a queue with messages and without a committed offset, is not a lag of 0.
    --timeout bounds each round of --until and --watch, --deadline the command.
    """
    if (given.group is None) == (not given.every):
        raise UsageFault(
            "consumer lag needs a GROUP or --all, one of them",
            "mqadmin consumer list lists the groups",
        )
    if given.every and (given.topic is not None or given.clients or given.pop):
        raise UsageFault("--topic, --clients and --pop apply to one GROUP", "omit --all")
    if given.deadline is not None and given.until is None and not given.watch:
        raise UsageFault("--deadline applies to --until and --watch")
    if given.watch and session.form in DOCUMENT_FORMS:
        raise UsageFault(f"--watch has no end, {session.form} is one document", "use -o ndjson")

    def ask() -> "Listing[Any]":
        if given.group is None:
            return all_lags(session.admin)
        return consumers(session.admin).lag(
            given.group, topic=given.topic, clients=given.clients, pop=given.pop
        )

    if given.until is None and not given.watch:
        _show(session, given.group, ask())
        return
    rounds = Rounds(session, given.group, ask, until=given.until, interval_ms=given.interval)
    rounds.run(
        watch=given.watch,
        deadline_ms=given.deadline if given.watch else given.deadline or DEFAULT_DEADLINE_MS,
    )


def _show(session: Session, group: str | None, listing: "Listing[Any]") -> None:
    if group is None:
        found = session.emit_listing(CONSUMER_LAG_ALL, listing, nothing="no group has an offset")
    else:
        found = session.emit_listing(
            CONSUMER_LAG,
            listing,
            nothing=f"group {group} has no offset on any broker",
            hint="mqadmin consumer list and mqadmin group list list the groups",
        )
    if found and session.is_table:
        known = [max(0, item.lag) for item in listing.items if item.lag is not None]
        total = str(sum(known)) if known else "-"
        unknown = found - len(known)
        rest = f", {unknown} without a committed offset or a response" if unknown else ""
        rows = "queues" if group is not None else "topics of groups"
        session.note(f"total lag {total} in {len(known)} {rows}{rest}")


def total_lag(listing: "Listing[Any]") -> int | None:
    """Return the sum of the lags, None if the lag of any queue or broker is not known."""
    if listing.errors or not listing.items:
        return None
    total = 0
    for item in listing.items:
        empty = item.lag is None and getattr(item, "broker_offset", None) == 0
        if not empty and (item.lag is None or item.state in ("noOffset", "unknown")):
            return None
        total += max(0, item.lag or 0)
    return total


class Rounds:
    """Repeated questions: the lag is printed each time (watch) or when it is small enough."""

    def __init__(
        self,
        session: Session,
        group: str | None,
        ask: Callable[[], "Listing[Any]"],
        *,
        until: int | None,
        interval_ms: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = session
        self._group = group
        self._ask = ask
        self._until = until
        self._interval_s = interval_ms / 1000
        self._clock = clock
        self._sleep = sleep

    def run(self, *, watch: bool, deadline_ms: int | None) -> None:
        """Ask until the lag is small enough or the time has passed (status 1 with --until)."""
        session = self._session
        end = None if deadline_ms is None else self._clock() + deadline_ms / 1000
        while True:
            listing = self._ask()
            total = total_lag(listing)
            reached = self._until is not None and total is not None and total <= self._until
            left = None if end is None else end - self._clock()
            last = reached or (left is not None and left <= 0)
            session.status = DONE
            if watch or last:
                _show(session, self._group, listing)
            if last:
                break
            self._sleep(self._interval_s if left is None else min(self._interval_s, left))
            session.admin.renew()
        if self._until is not None and not reached:
            shown = "not known" if total is None else str(total)
            session.status = DONE
            session.report(
                NO,
                "notReached",
                f"the total lag is {shown} after the deadline, not {self._until} or less",
                "raise --deadline",
            )
