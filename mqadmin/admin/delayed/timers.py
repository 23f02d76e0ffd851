"""Timer messages of running brokers: list the pending ones, recall them.

A list reads the newest records of rmq_sys_wheel_timer with pull requests, at most ``scan`` of each
broker: a message that waits is at most timerMaxDelaySec (3 days) old, or was stored again since.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.topic import TIMER_TOPIC
from broker.errors import ClientError, RemoteProtocolError, RocketMQError
from broker.message.recall_handle import decode_recall_handle
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Listing, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target
from mqadmin.system_topics.timers import MAX_PENDING, PendingTimers, TimerFilter, TimerRow

DEFAULT_LIMIT: Final = 1_000
DEFAULT_SCAN: Final = 20_000


class RecallItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A recall: "planned", "recalled", or "failed" with ``note``.

    ``dueTimestamp`` is the time in the handle, epoch ms, None if it is not a number.
    """

    topic: str
    broker_name: str
    address: str
    uniq_key: str
    due_timestamp: int | None
    recall_handle: str
    status: str
    note: str = ""
    error: TargetError | None = None


class TimerAdmin:
    """Queries about timer messages, and recalling them."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def list(
        self,
        wanted: TimerFilter,
        *,
        cluster: str | None = None,
        broker: str | None = None,
        limit: int = DEFAULT_LIMIT,
        scan: int = DEFAULT_SCAN,
    ) -> Listing[TimerRow]:
        """Return the pending timer messages by due time; ClientError for an unknown topic."""
        targets = self._admin.topology.readers(cluster=cluster, broker=broker)
        found = self._all(wanted, targets, scan)
        if not found.items and not found.errors and wanted.topic is not None:
            self._admin.routes.get(wanted.topic)
        return msgspec.structs.replace(
            found,
            items=found.items[:limit],
            truncated=found.truncated or len(found.items) > limit,
        )

    def _all(self, wanted: TimerFilter, targets: Sequence[Target], scan: int) -> Listing[TimerRow]:
        items: list[TimerRow] = []
        errors: list[TargetError] = []
        notes: list[str] = []
        truncated = False
        for target in targets:
            try:
                pending, skipped = self._pending(target, scan)
            except RocketMQError as error:
                errors.append(describe(error, address=target.address, target=target.label))
                continue
            items += [row for row in pending.rows() if wanted.accepts(row)]
            truncated = truncated or pending.truncated or skipped > 0
            if skipped:
                notes.append(f"{target.label}: {skipped} older records were not read (--scan)")
            if pending.truncated:
                notes.append(f"{target.label}: more than {MAX_PENDING} messages are pending")
        items.sort(key=lambda row: row.due_timestamp)
        return Listing(items=items, errors=errors, notes=notes, truncated=truncated)

    def _pending(self, target: Target, scan: int) -> tuple[PendingTimers, int]:
        """Return the pending messages of a broker, and the number of records not read."""
        now_ms = self._clock.now_ms()
        state = self._admin.call(target.address, RequestCode.GET_TIMER_CHECK_POINT).value
        reader = BrokerReader(self._admin, target)
        queue = reader.queue(TIMER_TOPIC, 0)
        least, end = reader.bounds(queue)
        begin = max(least, end - scan)
        pending = PendingTimers(target.broker_name, now_ms, read_ms=state.last_read_time_ms)
        pending.add_all(reader.messages(queue, begin, end))
        return pending, begin - least

    def plan_recall(self, words: Sequence[str]) -> Sequence[RecallItem]:
        """Return the recalls for handles, uniqKeys, offsetMsgIds or keys of pending messages.

        ClientError if a word is not a handle and no pending message has it, or if the broker of a
        handle is not registered.
        """
        handles: list[str] = []
        listing: Listing[TimerRow] | None = None
        for word in words:
            try:
                decode_recall_handle(word)
                handles.append(word)
                continue
            except RemoteProtocolError:
                pass
            if listing is None:
                targets = self._admin.topology.readers()
                listing = self._all(TimerFilter(), targets, DEFAULT_SCAN)
            handles += _handles_of(word, listing)
        return [self._item(text) for text in dict.fromkeys(handles)]

    def _item(self, text: str) -> RecallItem:
        handle = decode_recall_handle(text)
        targets = self._admin.topology.masters(broker=handle.broker_name)
        return RecallItem(
            topic=handle.topic,
            broker_name=handle.broker_name,
            address=targets[0].address,
            uniq_key=handle.uniq_key,
            due_timestamp=int(handle.timestamp) if handle.timestamp.isdecimal() else None,
            recall_handle=text,
            status="planned",
        )

    def recall(self, item: RecallItem) -> RecallItem:
        """Recall one message: the broker stores a recall in the slot of the message.

        **Source:** RocketMQ RecallMessageProcessor#processRequest (5.3.2 and later).
        """
        try:
            self._admin.call(
                item.address,
                RequestCode.RECALL_MESSAGE,
                topic=item.topic,
                recall_handle=item.recall_handle,
            )
        except RocketMQError as error:
            found = describe(error, address=item.address, target=item.uniq_key)
            return msgspec.structs.replace(item, status="failed", note=error.message, error=found)
        return msgspec.structs.replace(item, status="recalled")


def _handles_of(word: str, listing: Listing[TimerRow]) -> Sequence[str]:
    """Return the handles of the messages with an id or key; ClientError if there are none."""
    found = [row.recall_handle for row in listing.items if row.matches(word) and row.recall_handle]
    if found:
        return found
    missing = [*(error.message for error in listing.errors), *listing.notes]
    if missing:
        raise ClientError(
            f"{word} is not a recall handle, and the search is incomplete: {'; '.join(missing)}",
            "mqadmin timer list --scan N shows handles",
        )
    raise ClientError(
        f"{word} is not a recall handle, and no pending timer message has this id or key",
        "mqadmin timer list shows handles, ids and keys",
    )
