"""``mqadmin tx``: list, show, resume."""

from typing import Annotated

from mqadmin.admin.transaction import library
from mqadmin.command.execution.each import run_each
from mqadmin.command.execution.session import Session
from mqadmin.command.framework.declare import Argument, Noun, Option
from mqadmin.command.framework.values import count, time_ms
from mqadmin.command.offline import OneBroker, OneCluster, StoreDir, bounded, refuse_online_options
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.transaction.halves import transaction_rows
from mqadmin.output.view import View

NOUN = Noun(
    "tx",
    """List and resume transactions that are not decided.

    A transactional producer sends a half message, which no consumer receives, and then commits or
    rolls it back. A half message without a decision is open: the broker asks a producer of the
    group, up to transactionCheckMax times, and then moves it to TRANS_CHECK_MAX_TIME_TOPIC, where
    it is discarded until an operator resumes it.
    """,
)

DEFAULT_LIMIT = 1_000

TX_LIST = View(
    "tx.list",
    (
        *("state", "brokerName", "topic", "producerGroup", "keys", "checks", "ageMs"),
        *("queueOffset", "offsetMsgId"),
    ),
)
TX_SHOW = View("tx.show")
TX_RESUME = View("tx.resume", ("offsetMsgId", "brokerName", "address", "status", "note"))


@NOUN.verb(
    "list",
    view=TX_LIST,
    examples=["mqadmin tx list", "mqadmin tx list --store /data/store -o json"],
)
def list_transactions(
    session: Session,
    cluster: OneCluster = None,
    broker: OneBroker = None,
    store: StoreDir = None,
    limit: Annotated[
        int | None,
        Option("--limit", metavar="N", help=f"Default {DEFAULT_LIMIT}.", parse=count),
    ] = None,
) -> None:
    """List transactions that are open or discarded: age, checks made, producer group.

    With --store nothing is asked over the network: the half and op queues of a store directory are
    read, of a Java broker 4.9 or 5.x too.
    """
    if store is not None:
        refuse_online_options(cluster=cluster, broker=broker)
        rows = transaction_rows(StoreDirectory(store), now_ms=time_ms("now"))
        bounded(session, TX_LIST, rows, limit, DEFAULT_LIMIT)
        return
    listing = library.TransactionAdmin(session.admin).list(
        cluster=cluster, broker=broker, limit=limit or DEFAULT_LIMIT
    )
    session.emit_listing(TX_LIST, listing, limit=limit)


@NOUN.verb(
    "show",
    view=TX_SHOW,
    examples=["mqadmin tx show AC11000100002A9F0000000000000000"],
)
def show(
    session: Session,
    wanted: Annotated[
        str, Argument("ID", help="A uniqKey (transaction id), an offsetMsgId or a key.")
    ],
    store: StoreDir = None,
) -> None:
    """Show one transaction that is open or discarded, all fields."""
    nothing = f"no open or discarded transaction has the id or key {wanted}"
    if store is not None:
        rows = transaction_rows(StoreDirectory(store), now_ms=time_ms("now"))
        session.emit(TX_SHOW, (row for row in rows if row.matches(wanted)), nothing=nothing)
        return
    session.emit_listing(
        TX_SHOW, library.TransactionAdmin(session.admin).find(wanted), nothing=nothing
    )


@NOUN.verb(
    "resume",
    view=TX_RESUME,
    changes=True,
    examples=["mqadmin tx resume 7F00000100002A9F0000000000000000 --yes"],
)
def resume(
    session: Session,
    ids: Annotated[
        list[str],
        Argument("ID...", help="offsetMsgIds of discarded transactions, as tx list shows them."),
    ],
) -> None:
    """Check discarded transactions again: their checks count from 0.

    The discarded copy stays in TRANS_CHECK_MAX_TIME_TOPIC: a second resume asks the producer a
    second time.
    """
    session.require_consent()
    transactions = library.TransactionAdmin(session.admin)
    items = transactions.plan_resume(ids)
    run_each(session, TX_RESUME, items, transactions.resume, f"resume {len(items)} transactions?")
