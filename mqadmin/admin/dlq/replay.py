"""Replay of dead letters: a plan, then one message at a time, recorded in a ledger.

The originals stay in the DLQ topic. A message is sent as its producer sent it: body, flag, keys,
tags, uniqKey, the application's properties and the born timestamp; properties that brokers and
consumers added (:data:`CLEANED`) are removed, so that it is processed like a new message.

The ledger makes a replay resumable: a rerun of a stopped replay continues after the last sent
message, and a rerun of a complete one sends nothing. A message in doubt (sent, no response) is
looked up by its uniqKey in the target topic and sent again only if it is not found; without a
uniqKey it is sent again, so it can be duplicated.

**Source:** RocketMQ ``SendMessageProcessor#consumerSendMsgBack`` (properties of dead letters).
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.common.topic import check_topic_name, retry_topic
from broker.errors import BrokerError, ClientError, ConfigError, ConnectError, RocketMQError
from broker.message import message as names
from broker.remoting.rpc.send_response import SEND_STATUS, read_send
from mqadmin.admin.dlq.dead_letters import DeadLetter
from mqadmin.admin.dlq.in_doubt import find_sent
from mqadmin.admin.dlq.ledger import REFUSED, SENDING, SENT, Entry, Ledger
from mqadmin.admin.failure import describe
from mqadmin.admin.message.message_sender import MessageSender
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession

#: Properties added by brokers and consumers; a replayed message has none of them.
CLEANED: Final = frozenset(
    {
        names.PROPERTY_WAIT_STORE_MSG_OK,  # false in messages a broker re-puts; absent means true
        names.PROPERTY_RETRY_TOPIC,
        names.PROPERTY_REAL_TOPIC,
        names.PROPERTY_REAL_QUEUE_ID,
        names.PROPERTY_ORIGIN_MESSAGE_ID,
        names.PROPERTY_DLQ_ORIGIN_TOPIC,
        names.PROPERTY_DLQ_ORIGIN_MESSAGE_ID,
        names.PROPERTY_DELAY,
        names.PROPERTY_TIMER_DELAY_SEC,
        names.PROPERTY_TIMER_DELAY_MS,
        names.PROPERTY_TIMER_DELIVER_MS,
        names.PROPERTY_TIMER_OUT_MS,
        names.PROPERTY_TIMER_ENQUEUE_MS,
        names.PROPERTY_TIMER_DEQUEUE_MS,
        names.PROPERTY_TIMER_ROLL_TIMES,
        names.PROPERTY_TIMER_DELAY_LEVEL,
        names.PROPERTY_RECONSUME_TIME,
        names.PROPERTY_MAX_RECONSUME_TIMES,
        names.PROPERTY_CONSUME_START_TIMESTAMP,
        names.PROPERTY_MIN_OFFSET,
        names.PROPERTY_MAX_OFFSET,
        names.PROPERTY_POP_CK,
        names.PROPERTY_POP_CK_OFFSET,
        names.PROPERTY_FIRST_POP_TIME,
        names.PROPERTY_TRANSACTION_PREPARED,
        names.PROPERTY_TRANSACTION_PREPARED_QUEUE_OFFSET,
        names.PROPERTY_TRANSACTION_ID,
        names.PROPERTY_TRANSACTION_CHECK_TIMES,
        names.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS,
        names.PROPERTY_PRODUCER_GROUP,
        names.PROPERTY_MSG_REGION,
        names.PROPERTY_TRACE_SWITCH,
        names.PROPERTY_CLUSTER,
        names.PROPERTY_CRC32,
        names.PROPERTY_INNER_NUM,
        names.PROPERTY_INNER_BASE,
        names.PROPERTY_DUP_INFO,
        names.PROPERTY_INNER_MULTI_DISPATCH,
        names.PROPERTY_INNER_MULTI_QUEUE_OFFSET,
        names.PROPERTY_FORWARD_QUEUE_ID,
        names.PROPERTY_REDIRECT,
    }
)

ORIGIN: Final = "origin"
RETRY: Final = "retry"

#: Consecutive failures after which the remaining messages are left for another run.
FAILURES_IN_A_ROW: Final = 3

#: Maximum brokers tried per message.
BROKERS_TRIED: Final = 3

PLANNED: Final = "planned"
ALREADY: Final = "alreadySent"
FOUND: Final = "found"
FAILED: Final = "failed"
NOT_TRIED: Final = "notTried"
NO_TARGET: Final = "noTarget"


class ReplayItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A dead letter and its replay status.

    ``status``: planned, sent, alreadySent (recorded in the ledger), found (in doubt, and the
    broker has it), noTarget (no origin, or no such topic), failed, notTried (too many failures
    before it). ``targetOffsetMsgId`` is the id of the new message, ``error`` the reason if there
    is none.
    """

    group: str
    offset_msg_id: str
    uniq_key: str | None
    keys: list[str]
    target_topic: str | None
    status: str
    broker_name: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    target_offset_msg_id: str | None = None
    note: str | None = None
    error: TargetError | None = None


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of each message, in the order of the file.

    ``addresses`` are the masters that have the target topics.
    """

    dead_letters: Sequence[DeadLetter]
    items: Sequence[ReplayItem]
    ledger: str
    addresses: Sequence[str] = ()

    def count(self, status: str) -> int:
        """Return how many items have a status."""
        return sum(item.status == status for item in self.items)

    def targets(self) -> dict[str, tuple[int, int]]:
        """Return target topic → (messages to send, messages already sent)."""
        found: dict[str, tuple[int, int]] = {}
        for item in self.items:
            if item.target_topic is not None and item.status in (PLANNED, ALREADY):
                new, old = found.get(item.target_topic, (0, 0))
                is_new = item.status == PLANNED
                found[item.target_topic] = (new + is_new, old + (not is_new))
        return found


def plan_replay(
    admin: AdminSession, dead_letters: Sequence[DeadLetter], *, to: str = ORIGIN, ledger: str
) -> ReplayPlan:
    """Plan the target of each dead letter; send nothing. ``to``: origin, retry or a topic.

    ConfigError for an invalid topic name and for a ledger that cannot be read. ClientError for a
    topic that does not exist, even when the ledger has an entry for every message.
    """
    known = Ledger(ledger).read().entries
    addresses: dict[str, Sequence[str]] = {}  # topic → addresses of its masters
    if to not in (ORIGIN, RETRY):
        if (reason := check_topic_name(to)) is not None:
            raise ConfigError(f"--to {to}: {reason}", "origin, retry, or the name of a topic")
        addresses[to] = _writers(admin, to)
        if not addresses[to]:
            missing = _no_topic(to)
            raise ClientError(missing.message, missing.hint)
    seen: set[str] = set()
    items = []
    for letter in dead_letters:
        target = target_of(letter, to)
        item = _planned(letter, target)
        entry = known.get(letter.offset_msg_id)
        if entry is not None and entry.state == SENT:
            item = _sent(item, entry, ALREADY)
        elif letter.offset_msg_id in seen:
            item = msgspec.structs.replace(item, status=ALREADY, note="duplicate in the input")
        elif target is None:
            item = _failed(item, NO_TARGET, _NO_ORIGIN)
        else:
            if target not in addresses:
                addresses[target] = _writers(admin, target)
            if not addresses[target]:
                item = _failed(item, NO_TARGET, _no_topic(target))
            elif entry is not None and entry.state == SENDING:
                item = msgspec.structs.replace(item, note="in doubt: looked up before sending")
        seen.add(letter.offset_msg_id)
        items.append(item)
    brokers = sorted({address for found in addresses.values() for address in found})
    return ReplayPlan(dead_letters=dead_letters, items=items, ledger=ledger, addresses=brokers)


def _writers(admin: AdminSession, topic: str) -> Sequence[str]:
    """Return the masters with a writable queue of a topic; empty when it does not exist."""
    route = admin.routes.find(topic)
    if route is None:
        return ()
    names = sorted({queue.broker_name for queue in route.publish_queues()})
    return [address for name in names if (address := route.master(name)) is not None]


def target_of(letter: DeadLetter, to: str) -> str | None:
    """Return the target topic of a dead letter, None if its origin is unknown."""
    if to == ORIGIN:
        return letter.origin_topic
    return retry_topic(letter.group) if to == RETRY else to


def cleaned(letter: DeadLetter, target: str) -> dict[str, str]:
    """Return the properties of a dead letter as its producer set them.

    In the retry topic RETRY_TOPIC keeps the subscribed topic: consumers restore it as the topic
    before they pass the message to the listener.
    """
    kept = {
        name: value
        for name, value in letter.properties.items()
        if name not in CLEANED and not name.startswith(names.TRANSIENT_PREFIX)
    }
    if target == retry_topic(letter.group) and letter.origin_topic is not None:
        kept[names.PROPERTY_RETRY_TOPIC] = letter.origin_topic
    return kept


def _planned(letter: DeadLetter, target: str | None) -> ReplayItem:
    return ReplayItem(
        group=letter.group,
        offset_msg_id=letter.offset_msg_id,
        uniq_key=letter.uniq_key,
        keys=letter.keys,
        target_topic=target,
        status=PLANNED,
    )


def _failed(item: ReplayItem, status: str, error: TargetError) -> ReplayItem:
    return msgspec.structs.replace(item, status=status, note=error.message, error=error)


_NO_ORIGIN: Final = TargetError(
    kind="client",
    message="the message does not contain its original topic",
    hint="--to TOPIC sends it to a topic of your choice",
)


def _no_topic(topic: str) -> TargetError:
    return TargetError(
        kind="client",
        message=f"topic {topic} is not there, or cannot be written",
        hint="mqadmin topic create TOPIC creates it; --to TOPIC names another one",
        target=topic,
    )


def _sent(item: ReplayItem, entry: Entry, status: str) -> ReplayItem:
    return msgspec.structs.replace(
        item,
        status=status,
        target_topic=entry.topic,
        broker_name=entry.broker_name,
        queue_id=entry.queue_id,
        queue_offset=entry.queue_offset,
        target_offset_msg_id=entry.offset_msg_id,
    )


class Replay:
    """Applies a plan; :meth:`run` yields each item with its result."""

    def __init__(
        self, admin: AdminSession, plan: ReplayPlan, clock: Clock, *, rate: float | None = None
    ) -> None:
        self._admin = admin
        self._plan = plan
        self._clock = clock
        self._rate = rate
        self._producer = MessageSender(admin, routes=admin.routes)
        self._next_queue = 0

    def run(self) -> Iterator[ReplayItem]:
        """Send the planned messages, in order. ConfigError while another run writes the ledger."""
        failed = 0
        with Ledger(self._plan.ledger) as ledger:
            pace = _Pace(self._rate)
            for letter, item in zip(self._plan.dead_letters, self._plan.items, strict=True):
                if item.status != PLANNED:
                    yield item
                    continue
                entry = ledger.entries.get(letter.offset_msg_id)
                if entry is not None and entry.state == SENT:
                    yield _sent(item, entry, ALREADY)
                    continue
                if failed == FAILURES_IN_A_ROW:
                    yield _failed(item, NOT_TRIED, _ABANDONED)
                    continue
                pace.wait()
                done = self._one(letter, item, entry, ledger)
                failed = failed + 1 if done.status == FAILED else 0
                yield done

    def _one(
        self, letter: DeadLetter, item: ReplayItem, entry: Entry | None, ledger: Ledger
    ) -> ReplayItem:
        assert item.target_topic is not None
        try:
            if entry is not None and entry.state == SENDING and letter.uniq_key:
                there = self._lookup(letter, entry)
                if there is not None:
                    ledger.write(there)
                    return _sent(item, there, FOUND)
            return _sent(item, self._send(letter, item.target_topic, ledger), SENT)
        except RocketMQError as error:
            return _failed(item, FAILED, describe(error, target=item.target_topic))

    def _lookup(self, letter: DeadLetter, entry: Entry) -> Entry | None:
        """Look up a message in doubt; the original and its retries have the same uniqKey."""
        return find_sent(
            self._admin,
            entry,
            letter.uniq_key or "",
            original_id=letter.origin_id,
            now_ms=self._clock.now_ms(),
            first_delivery=True,
        )

    def _send(self, letter: DeadLetter, topic: str, ledger: Ledger) -> Entry:
        """Send to one queue per broker in turn until one broker stores the message."""
        message = names.Message(topic, letter.body, flag=letter.flag)
        message.properties = cleaned(letter, topic)
        last: RocketMQError | None = None
        for queue in self._queues(topic):
            address, command = self._producer.request(
                message, queue, born_timestamp_ms=letter.born_timestamp or None
            )
            entry = Entry(
                id=letter.offset_msg_id, state=SENDING, at=self._clock.now_ms(), topic=topic
            )
            ledger.write(entry)
            try:
                reply = self._admin.send(address, command, accept=SEND_STATUS)
            except (BrokerError, ConnectError) as error:
                # The message was certainly not stored, so another broker can be tried.
                ledger.write(msgspec.structs.replace(entry, state=REFUSED))
                last = error
                continue
            result = read_send(reply, queue, message.properties[names.PROPERTY_UNIQ_KEY])
            sent = msgspec.structs.replace(
                entry,
                state=SENT,
                broker_name=queue.broker_name,
                queue_id=result.message_queue.queue_id,
                queue_offset=result.queue_offset,
                offset_msg_id=result.offset_msg_id,
            )
            ledger.write(sent)
            return sent
        raise last or ClientError(
            f"topic {topic} has no writable queue", f"mqadmin topic perm {topic} rw allows writing"
        )

    def _queues(self, topic: str) -> list[MessageQueue]:
        """Return the next queue in round-robin order, then one queue of each other broker."""
        queues = self._admin.routes.get(topic).publish_queues()
        if not queues:
            return []
        self._next_queue += 1
        at = self._next_queue % len(queues)
        chosen: dict[str, MessageQueue] = {}
        for queue in queues[at:] + queues[:at]:
            chosen.setdefault(queue.broker_name, queue)
        return list(chosen.values())[:BROKERS_TRIED]


_ABANDONED: Final = TargetError(
    kind="unreachable",
    message=f"not tried: the {FAILURES_IN_A_ROW} messages before it failed",
    hint="rerun the command to resume",
)


class _Pace:
    """Limits to ``rate`` messages per second; None is unlimited."""

    def __init__(self, rate: float | None) -> None:
        self._step = 0.0 if not rate else 1 / rate
        self._next: float | None = None

    def wait(self) -> None:
        """Sleep until the next message may be sent."""
        if not self._step:
            return

        now: Any = time.monotonic()
        if self._next is not None and self._next > now:
            time.sleep(self._next - now)
            now = self._next
        self._next = now + self._step
