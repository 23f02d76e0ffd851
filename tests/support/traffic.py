"""Every kind of traffic a broker stores, sent by a seeded client that records the acknowledgements.

Each note is a mark in the journal of the simulated disk, made at the moment the answer leaves the
broker (:class:`tests.support.expected_state.ExpectedState` reads them):

=========  ========================================================================
stored     a :class:`Stored`: acknowledged at this place
flushed    the flushed end of the log as the store reports it
handled    a :class:`Handled`: consumed or sent back
commit     (group, topic, queue id, offset), before the request is sent
topic      (name, queues), answered
group      (name, retryMaxTimes), answered
time       the wall clock, ms
serving    the broker answers; until ``stopping``
half, decided  see :mod:`tests.support.transactional`
acking, acked  see :mod:`tests.support.popping`
deleting, deleted  see :mod:`tests.support.recreating`
recalling  number of a timer message, before the recall is sent
recalled   (number, end of the log, whether a flush was guaranteed), answered
stopped    the broker stopped cleanly; whether the offsets must be written
crash      end of a life of the broker; whether its process was killed, or power cut
found      the committed offsets after the restart; whether they are durable
failing    a call to the disk fails until the next start, or a sync of the log has failed
=========  ========================================================================
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec

from broker.message.batch import encode_batch, unwrap_inner_batch
from broker.message.message import Message, MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record, scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.ingest.loader import is_forced
from tests.support import popping, recreating
from tests.support.popping import Pops
from tests.support.recreating import Deletions
from tests.support.send_frames import sys_flag_of
from tests.support.simulated_broker import DELAY_LEVELS_MS, SimBroker
from tests.support.transactional import Transactions

TOPICS = ("T0", "T1", "T2")
GROUPS = ("G0", "G1")
LIGHT_QUEUES = ("%LMQ%a", "%LMQ%b")
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
# With the window of the simulated broker (8 slots of a second) the last three are rolled.
TIMER_DELAYS_MS = (300, 1_500, 6_100, 9_000, 20_000, 25_500)
BODY_SIZES = (0, 20, 300, 900)
BULK_TOPIC = "B0"  # its queues hold whole batches
QUEUES = 2
POP_REVIVE_MS = 15_000  # from a pop to the revival of its messages, at most
FIRST_RETRY_MAX_TIMES = 16


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledged message: its place, and its target.

    ``waited``: the answer guaranteed a flush. ``target`` is the topic and queue id of a delayed
    message, which is never delivered before ``due_ms``. ``lights`` are the further queues it was
    dispatched to. ``key`` leads to its record by the index. ``handle`` recalls it.
    """

    number: int
    body: bytes
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    waited: bool
    target: tuple[str, int] | None = None
    due_ms: int = 0
    lights: tuple[str, ...] = ()
    key: str
    handle: str = ""

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, queue id and queue offset."""
        return self.topic, self.queue_id, self.queue_offset


class Handled(msgspec.Struct, frozen=True, kw_only=True):
    """A message that a consumer group has consumed, or sent back to ``copy_topic``."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    number: int
    times: int
    copy_topic: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of one send."""

    topic: str
    queue_id: int
    numbers: range
    wait: bool
    level: int = 0
    timer_ms: int = 0
    timer_property: str = "TIMER_DELAY_MS"
    lights: tuple[str, ...] = ()

    @property
    def inner_batch(self) -> bool:
        """Whether the messages become one record."""
        return self.topic == BULK_TOPIC and len(self.numbers) > 1


class Traffic:
    """One client over the lives of a broker; ``step()`` does one thing, or several at once."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.disk_fails = False  # a broker whose disk fails may refuse, for good too
        self.number = 0
        self.kinds: Counter[str] = Counter()
        self.refused: Counter[int] = Counter()
        self.ingested_batches = 0  # batches that took the vectorized path
        self.stored: dict[int, Stored] = {}
        self._broker: SimBroker | None = None
        self._positions: dict[tuple[str, str, int], int] = {}
        self._versions: Counter[str] = Counter()
        self._flushed = -1
        self.transactions = Transactions(self, rng)
        self.pops = Pops(self, rng)
        self.deletions = Deletions(self)

    @property
    def broker(self) -> SimBroker:
        assert self._broker is not None
        return self._broker

    @property
    def sync(self) -> bool:
        return self.broker.store.sync_flush

    @property
    def _multi_dispatch(self) -> bool:
        return self.broker.settings.store.enable_multi_dispatch

    def attach(self, broker: SimBroker) -> None:
        """Send to this broker from now on; consumers begin at their committed offsets."""
        self._broker = broker
        self._positions.clear()
        self._flushed = -1
        offsets = broker.context.offsets.table
        found = {
            (group, topic, queue_id): offset
            for key, queues in offsets.items()
            for topic, _, group in [key.partition("@")]
            for queue_id, offset in queues.items()
        }
        broker.disk.mark("found", found, not self.disk_fails)
        self.mark("serving")
        self.transactions.attach(broker)
        self.pops.attach(broker)

    def mark(self, *fields: object) -> None:
        """Add a mark, after one with the flushed end of the log."""
        disk, store = self.broker.disk, self.broker.store
        if store.flushed_where != self._flushed:
            self._flushed = store.flushed_where
            disk.mark("flushed", self._flushed)
        disk.mark("time", self.broker.clock.now_ms())
        if store.flusher.failed:
            disk.mark("failing")
        disk.mark(*fields)

    def steps(self, count: int) -> None:
        """So many steps."""
        for _ in range(count):
            self.step()

    def step(self) -> None:
        """One thing that clients do, or several at once."""
        roll = self.rng.random()
        if roll < 0.34:
            self.burst(self.rng.choice((1, 1, 2, 5)))
        elif roll < 0.44:
            self.transactions.step()
        elif roll < 0.56:
            self.pops.step()
        elif roll < 0.6:
            self.broker.run(self._recall())
        elif roll < 0.63:
            self.burst(self.rng.choice((0, 2, 5)), deletion=True)
        elif roll < 0.74:
            self.broker.run(self._consume())
        elif roll < 0.86:
            self._count("time passes")
            self.broker.pass_ms(self.rng.choice((20, 600, 1_200, 5_500)))
        elif roll < 0.91:
            self.broker.run(self._make_topic())
        elif roll < 0.95:
            self.broker.run(self._make_group())
        elif roll < 0.975:
            self._count("quiet")
            self.be_quiet()
        else:
            self._count("restart")
            self.restart()
        self.mark("step")

    def restart(self) -> None:
        """Stop in order and start again."""
        self.mark("stopping")
        self.broker.stop()
        # After a failed sync a stop guarantees no more than a loss of power does.
        failed = bool(self.broker.store.flusher.failed)
        # Where the disk takes no files the offsets stay as they were.
        stopped = ("stopped", not self.disk_fails)
        self.broker.disk.mark(*(("crash", False) if failed else stopped))
        self.broker.start()
        self.attach(self.broker)

    def _count(self, kind: str) -> None:
        self.kinds[kind] += 1

    # ---- sending

    def burst(self, size: int, *, deletion: bool = False) -> None:
        """So many sends at once, and the deletion of a topic between them."""
        plans = [self._plan() for _ in range(size)]
        before = self.rng.randrange(size + 1)

        async def send_all() -> None:
            requests: list[Awaitable[object]] = [self.send(plan) for plan in plans]
            if deletion:
                requests.insert(before, self.deletions.delete())
            await asyncio.gather(*requests)

        self.broker.run(send_all())

    def _plan(self) -> Plan:
        rng = self.rng
        plain = is_forced() and rng.random() < 0.7  # the messages that vectorized ingest takes
        count = rng.choice((1, 1, 3) if plain else (1, 1, 1, 3))
        first = self.number
        self.number += count
        delayed = not plain and count == 1 and rng.random() < 0.35
        timer = not (plain or delayed) and rng.random() < 0.25
        light = not plain and rng.random() < 0.25 and not timer and self._multi_dispatch
        bulk = not plain and count > 1 and rng.random() < 0.5
        return Plan(
            topic=BULK_TOPIC if bulk else rng.choice((*TOPICS, popping.TOPIC, recreating.TOPIC)),
            queue_id=rng.randrange(QUEUES),
            numbers=range(first, first + count),
            wait=rng.random() < (0.9 if plain else 0.6),
            level=rng.choice(list(DELAY_LEVELS_MS)) if delayed else 0,
            timer_ms=rng.choice(TIMER_DELAYS_MS) if timer else 0,
            timer_property=rng.choice(("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")),
            lights=rng.choice((LIGHT_QUEUES, LIGHT_QUEUES[:1])) if light and count == 1 else (),
        )

    async def send(self, plan: Plan) -> bool:
        """Send the planned messages; False when one was refused."""
        self._count(
            kind_of(plan)
            + ("" if plan.wait else " WAIT=false")
            + (" multi-dispatch" if plan.lights else "")
        )
        if plan.inner_batch:
            await self._ensure_bulk_topic()
        sizes = self.rng.choices(BODY_SIZES, k=len(plan.numbers))
        if self.rng.random() < 0.5:  # items of equal lengths are encoded by column
            sizes = sizes[:1] * len(sizes)
        bodies = [
            b"%06d" % number + bytes([7]) * size
            for number, size in zip(plan.numbers, sizes, strict=True)
        ]
        now_ms = self.broker.clock.now_ms()
        figures = self.broker.context.ingest
        before = figures.frames
        sent = self.deletions.now()

        def note(answer: RemotingCommand) -> None:
            if plan.topic != recreating.TOPIC or not self.deletions.overlaps(sent):
                self._note_stored(plan, bodies, answer, now_ms)

        answer = await self._ask(send_request(plan, bodies, now_ms), note)
        if len(bodies) > 1 and figures.frames - before >= len(bodies):
            self.ingested_batches += 1
        return answer.code == ResponseCode.SUCCESS

    def _note_stored(
        self, plan: Plan, bodies: list[bytes], answer: RemotingCommand, sent_ms: int
    ) -> None:
        if answer.code != ResponseCode.SUCCESS:
            self.refused[answer.code] += 1
            return
        ids = answer.ext_fields["msgId"].split(",")
        first = int(answer.ext_fields["queueOffset"])
        inner = len(ids) < len(bodies)
        assert inner == plan.inner_batch
        for place, (number, body) in enumerate(zip(plan.numbers, bodies, strict=True)):
            topic, queue_id, delay_ms = plan.topic, plan.queue_id, whole_ms(plan)
            if plan.level:
                topic, queue_id = SCHEDULE_TOPIC, plan.level - 1
                delay_ms = DELAY_LEVELS_MS[plan.level]
            elif plan.timer_ms and self._was_over(sent_ms + delay_ms, ids[0]):
                delay_ms = 0
            elif plan.timer_ms:
                topic, queue_id = TIMER_TOPIC, 0
            stored = Stored(
                number=number,
                body=body,
                topic=topic,
                queue_id=queue_id,
                queue_offset=first + (0 if inner and topic == TIMER_TOPIC else place),
                physical_offset=int(ids[0 if inner else place][16:], 16),
                waited=plan.wait and self.sync,
                target=(plan.topic, plan.queue_id) if delay_ms else None,
                due_ms=sent_ms + delay_ms if delay_ms else 0,
                lights=plan.lights,
                key=f"U{plan.numbers[0]:08d}" if inner else f"k{number}",
                handle=answer.ext_fields.get("recallHandle", "") if delay_ms else "",
            )
            self.stored[number] = stored
            self.mark("stored", stored)

    def _was_over(self, due_ms: int, message_id: str) -> bool:
        """Whether a timer was over when the broker served its send: it is a plain message then."""
        if due_ms > self.broker.clock.now_ms():
            return False
        record = self.broker.store.get_record_at(int(message_id[16:], 16))
        assert record is not None
        return decode_record(record).topic != TIMER_TOPIC

    def _ask(
        self, command: RemotingCommand, note: Callable[[RemotingCommand], None]
    ) -> Awaitable[RemotingCommand]:
        """Send a request; ``note`` sees its answer at the moment it leaves the broker."""
        return self.broker.peer.call(command, note)

    async def _ensure_bulk_topic(self) -> None:
        """UPDATE_AND_CREATE_TOPIC of the topic whose queues hold whole batches."""
        if BULK_TOPIC not in self.broker.context.topics:
            fields = topic_fields(BULK_TOPIC, QUEUES, attributes="+queue.type=BatchCQ")
            command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
            await self._make(lambda: command, "topic", (BULK_TOPIC, QUEUES))

    async def _recall(self) -> None:
        """RECALL_MESSAGE of a timer message that is pending, as far as the client knows."""
        now_ms = self.broker.clock.now_ms()
        pending = [s for s in self.stored.values() if s.handle and s.due_ms > now_ms]
        if not pending:
            return
        stored = self.rng.choice(pending)
        assert stored.target is not None
        self._count("recall")
        self.mark("recalling", stored.number)
        fields = {
            "producerGroup": "P",
            "topic": stored.target[0],
            "recallHandle": stored.handle,
        }

        def note(answer: RemotingCommand) -> None:
            if answer.code == ResponseCode.SUCCESS:
                end = self.broker.store.max_physical_offset
                self.mark("recalled", (stored.number, end, self.sync))

        await self._ask(request(RequestCode.RECALL_MESSAGE, fields), note)

    # ---- consuming

    async def _consume(self) -> None:
        rng = self.rng
        group = rng.choice(GROUPS)
        topic = rng.choice((*TOPICS, recreating.TOPIC, f"%RETRY%{group}"))
        queue_id = 0 if topic.startswith("%") else rng.randrange(QUEUES)
        key = (group, topic, queue_id)
        begin = await self._position(key)
        for message in (await self.pull(key))[: rng.randrange(1, 6)]:
            if not await self._handle(group, message, topic):
                break
            self._positions[key] = message.queue_offset + 1
        if self._positions[key] > begin and rng.random() < 0.7:
            await self.commit(key, await self._position(key))

    async def pull(self, key: tuple[str, str, int]) -> list[MessageExt]:
        """The messages a consumer (group, topic, queue id) gets next."""
        self._count("pull")
        answer = await self.broker.peer.call(pull_request(*key, await self._position(key)))
        if answer.code != ResponseCode.SUCCESS:
            return []
        return list(scan_records(answer.body_bytes()))

    async def _position(self, key: tuple[str, str, int]) -> int:
        if key not in self._positions:
            group, topic, queue_id = key
            fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
            command = request(RequestCode.QUERY_CONSUMER_OFFSET, fields)
            answer = await self.broker.peer.call(command)
            self._positions[key] = int(answer.ext_fields.get("offset", "0"))
        return self._positions[key]

    def forget_positions(self, topic: str) -> None:
        """Have the consumers of a topic ask for their committed offsets again."""
        self._positions = {key: at for key, at in self._positions.items() if key[1] != topic}

    async def commit(self, key: tuple[str, str, int], offset: int) -> None:
        """UPDATE_CONSUMER_OFFSET."""
        self._count("commit")
        group, topic, queue_id = key
        self.mark("commit", (group, topic, queue_id, offset))
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "commitOffset": str(offset),
        }
        await self.broker.peer.call(request(RequestCode.UPDATE_CONSUMER_OFFSET, fields))

    async def _handle(self, group: str, message: MessageExt, topic: str) -> bool:
        """Consume a message or send it back; False when the broker did not take it back."""
        handled = Handled(
            group=group,
            topic=topic,
            queue_id=message.queue_id,
            queue_offset=message.queue_offset,
            number=int(message.body[:6]),
            times=message.reconsume_times,
        )
        if self.rng.random() < 0.6:
            self._count("consumed")
            self.mark("handled", handled)
            return True
        level = self.rng.choice((-1, 0, 1, 1, 2))
        return await self.send_back(handled, message.physical_offset, level)

    async def send_back(self, handled: Handled, physical_offset: int, level: int) -> bool:
        """CONSUMER_SEND_MSG_BACK; False when it was refused."""
        self._count("sent to DLQ" if level < 0 else "sent back")
        fields = {
            "offset": str(physical_offset),
            "group": handled.group,
            "delayLevel": str(level),
            "maxReconsumeTimes": "100",
        }
        prefix = "%DLQ%" if level < 0 else "%RETRY%"
        copied = msgspec.structs.replace(handled, copy_topic=prefix + handled.group)

        def note(answer: RemotingCommand) -> None:
            if answer.code == ResponseCode.SUCCESS:
                self.mark("handled", copied)

        answer = await self._ask(request(RequestCode.CONSUMER_SEND_MSG_BACK, fields), note)
        return answer.code == ResponseCode.SUCCESS

    # ---- topics and groups

    async def _make_topic(self) -> None:
        """UPDATE_AND_CREATE_TOPIC: a new topic, or more queues for one."""
        name = f"N{self.rng.randrange(3)}"
        self._count("topic")
        self._versions[name] += 1
        queues = self._versions[name]
        fields = topic_fields(name, queues)
        await self._make(
            lambda: request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields), "topic", (name, queues)
        )

    async def _make_group(self) -> None:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, with a retryMaxTimes never used before."""
        name = self.rng.choice((*GROUPS, "G2"))
        self._count("group")
        self._versions[name] += 1
        times = FIRST_RETRY_MAX_TIMES + self._versions[name]
        body = msgspec.json.encode({"groupName": name, "retryMaxTimes": times})
        await self._make(
            lambda: request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body),
            "group",
            (name, times),
        )

    async def _make(
        self, command: Callable[[], RemotingCommand], kind: str, created: tuple[str, int]
    ) -> None:
        """Create a topic or a group; repeat the request once if it was refused."""

        def note(answer: RemotingCommand) -> None:
            if answer.code == ResponseCode.SUCCESS:
                self.mark(kind, created)

        answer = await self._ask(command(), note)
        if answer.code != ResponseCode.SUCCESS:
            await self._ask(command(), note)

    # ---- a broker without requests

    def be_quiet(self) -> None:
        """Send no request: stored messages nevertheless become durable and visible."""
        if self.disk_fails:
            self.broker.pass_ms(30_000)
        else:
            self._check_quiet()

    def _check_quiet(self) -> None:
        """Without any request everything stored becomes durable, visible and delivered.

        SYNC_FLUSH: at once; ASYNC_FLUSH: within flushCommitLogThoroughInterval. Then the progress
        files follow within the interval they are written at.
        """
        self.transactions.wait_until()  # checks of open ones append copies for ever
        store = self.broker.store
        interval_ms = 1_000 if self.sync else 11_000
        end = store.max_physical_offset
        self.broker.pass_ms(interval_ms)
        missing = end - store.flushed_where
        assert missing <= 0, f"{missing} bytes of the log are not flushed without further traffic"
        missing = end - store.reput.offset
        assert missing <= 0, f"{missing} bytes of the log are not dispatched"
        # The longest delay, the flush of delivered messages, two rounds of the progress timer.
        now_ms = self.broker.clock.now_ms()
        timers_ms = max((s.due_ms - now_ms for s in self.stored.values()), default=0)
        longest_ms = max(*DELAY_LEVELS_MS.values(), timers_ms + 1_000, POP_REVIVE_MS)
        self.broker.pass_ms(longest_ms + interval_ms + 11_000)
        missing = store.max_physical_offset - store.flushed_where
        assert not missing, f"{missing} bytes of delivered messages are not flushed"
        self.mark("quiet")


def kind_of(plan: Plan) -> str:
    """The kind of traffic, for the count of sent messages."""
    if len(plan.numbers) > 1:
        return "inner batch" if plan.inner_batch else "batch"
    return "delayed" if plan.level else plan.timer_property if plan.timer_ms else "plain"


def whole_ms(plan: Plan) -> int:
    """The delay of a timer message, in whole seconds if its property can only name these."""
    if plan.timer_ms and plan.timer_property == "TIMER_DELAY_SEC":
        return max(1, plan.timer_ms // 1_000) * 1_000
    return plan.timer_ms


def numbers_in(message: MessageExt) -> list[int]:
    """The numbers of the messages in a record; none in the broker's own records."""
    if "INNER_NUM" in message.properties:
        return [int(item.body[:6]) for item in unwrap_inner_batch(message)]
    return [int(message.body[:6])] if message.body[:6].isdigit() and message.body[5:6] else []


def topic_fields(name: str, queues: int, **more: str) -> dict[str, str]:
    """The fields of UPDATE_AND_CREATE_TOPIC."""
    return {
        "topic": name,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        **more,
    }


def send_request(plan: Plan, bodies: list[bytes], now_ms: int) -> RemotingCommand:
    """The request of one send."""
    batch = len(bodies) > 1
    properties = {"UNIQ_KEY": f"U{plan.numbers[0]:08d}", "WAIT": "true" if plan.wait else "false"}
    if not batch:
        properties["KEYS"] = f"k{plan.numbers[0]}"
    if plan.level:
        properties["DELAY"] = str(plan.level)
    if plan.timer_ms:
        delay_ms = whole_ms(plan)
        numbers = {
            "TIMER_DELAY_SEC": delay_ms // 1_000,
            "TIMER_DELAY_MS": delay_ms,
            "TIMER_DELIVER_MS": now_ms + delay_ms,
        }
        properties[plan.timer_property] = str(numbers[plan.timer_property])
    if plan.lights:
        properties["INNER_MULTI_DISPATCH"] = ",".join(plan.lights)
    fields = {
        "a": "P",
        "b": plan.topic,
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(plan.queue_id),
        "f": sys_flag_of(plan.numbers[0]),
        "g": str(now_ms),
        "h": "0",
        "i": encode_properties(properties).decode(),
        "j": "0",
        "k": "false",
        "m": "true" if batch else "false",
    }
    if not batch:
        return request(RequestCode.SEND_MESSAGE_V2, fields, bodies[0])
    messages = [
        Message(
            topic=plan.topic,
            body=body,
            properties={"UNIQ_KEY": f"U{number:08d}", "KEYS": f"k{number}"},
        )
        for number, body in zip(plan.numbers, bodies, strict=True)
    ]
    return request(RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(messages))


def pull_request(group: str, topic: str, queue_id: int, offset: int) -> RemotingCommand:
    """A pull with its own subscription that is answered at once."""
    fields = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    return request(RequestCode.PULL_MESSAGE, fields)
