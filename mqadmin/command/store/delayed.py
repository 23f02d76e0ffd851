"""``mqadmin store inspect``: kinds that other files contain, and delayed messages."""

from collections.abc import Iterator
from typing import Any, Final

from mqadmin.command.framework.values import time_ms
from mqadmin.inspector.delayed.check_points import check_points
from mqadmin.inspector.delayed.unit_rows import ext_rows, log_rows, slot_rows
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.query import Query
from mqadmin.inspector.static_topics import segment_rows
from mqadmin.inspector.transaction.halves import transaction_rows
from mqadmin.output.view import View

INSPECT_WHEEL = View(
    "store.inspect.timerwheel",
    ("position", "slotTime", "pending", "num", "firstPos", "lastPos", "path"),
)
INSPECT_TIMER_LOG = View(
    "store.inspect.timerlog",
    (
        *("position", "prevPos", "action", "slotTime", "currWriteTime", "physicalOffset"),
        *("storeSize", "realTopicHash", "path"),
    ),
)
INSPECT_EXT = View(
    "store.inspect.ext", ("topic", "queueId", "position", "tagsCode", "storeTime", "bitMap")
)
INSPECT_POP = View(
    "store.inspect.pop",
    (
        *("group", "topic", "brokerName", "queueId", "offsets", "unacknowledged", "popTime"),
        *("reviveTime", "reviveInMs", "stage", "physicalOffset"),
    ),
)
INSPECT_TRANSACTION = View(
    "store.inspect.transaction",
    (
        *("state", "topic", "producerGroup", "keys", "checks", "ageMs", "queueOffset"),
        *("physicalOffset", "offsetMsgId"),
    ),
)
INSPECT_STATIC = View(
    "store.inspect.static",
    (
        *("topic", "queueId", "gen", "brokerName", "brokerQueueId", "logicOffset", "startOffset"),
        *("endOffset", "sends", "epoch"),
    ),
)
VIEWS: Final = (
    *(INSPECT_WHEEL, INSPECT_TIMER_LOG, INSPECT_EXT),
    *(INSPECT_POP, INSPECT_TRANSACTION, INSPECT_STATIC),
)


def delayed_rows(store: StoreDirectory, query: Query) -> tuple[View, Iterator[Any]]:
    """Return view and rows of the kind of ``store``."""
    now_ms = time_ms("now")
    if store.kind == "timerwheel":
        return INSPECT_WHEEL, slot_rows(store, query)
    if store.kind == "timerlog":
        return INSPECT_TIMER_LOG, log_rows(store, query)
    if store.kind == "ext":
        return INSPECT_EXT, ext_rows(store, query)
    if store.kind == "pop":
        return INSPECT_POP, check_points(store, query, now_ms=now_ms)
    if store.kind == "static":
        return INSPECT_STATIC, segment_rows(store, query)
    rows = (
        row
        for row in transaction_rows(store, now_ms=now_ms)
        if query.topic in (None, row.topic)
        and (query.key is None or row.matches(query.key))
        and (query.id is None or row.matches(query.id))
    )
    return INSPECT_TRANSACTION, rows
