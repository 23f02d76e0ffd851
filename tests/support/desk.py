"""The processors of a broker without sockets: requests in, responses out."""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.common.address import encode_address
from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.rpc import Access
from broker.server.configuration.settings import Settings
from broker.server.context import BrokerContext
from broker.server.pop.assignment.route_lookup import RouteLookup
from broker.server.pop.files import PopFiles
from broker.server.pop.processor.table import make_handlers as pop_handlers
from broker.server.pop.processor.table import make_service
from broker.server.pop.timers import WaitingTopics
from broker.server.pop.wheel_timer import WheelTimer
from broker.server.processor.pull import PullMessageProcessor
from broker.server.processor.send.send import SendMessageProcessor
from broker.server.processor.table import make_handlers
from broker.server.schedule import ScheduleMessageService
from broker.server.tables.persistence import ConfigStore
from broker.server.tables.table_writer import run_in_place
from broker.server.timer.timer_service import TimerService
from broker.server.transaction.bridge import TransactionalMessageBridge
from broker.server.transaction.service import TransactionalMessageService
from broker.store.config import parse_delay_levels
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus
from broker.store.timer.timer_message_store import TimerMessageStore
from tests.support.simulated_timer import SimulatedTimer

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(256 * 1024),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


class FakeConnection:
    """The part of a connection that processors use; ``sent`` keeps everything sent to it."""

    def __init__(self, address: str = "127.0.0.1:50001") -> None:
        self.remote_address = address
        self.remote_host = encode_address(address)
        self.access = Access.ADMINISTRATOR
        self.closed = False
        self.paused = False
        self.attrs: dict[str, Any] = {}
        self.sent: list[Any] = []
        self.calls: list[tuple[RemotingCommand, float]] = []
        self.closed_because = ""
        self.answer: RemotingCommand | Exception | None = None
        self.on_send: Callable[[], None] | None = None

    def send(self, frame: Any) -> bool:
        if self.closed:
            return False
        self.sent.append(frame)
        if self.on_send is not None:
            self.on_send()
        return True

    def oneway(self, command: RemotingCommand) -> bool:
        command.flag |= 2
        return self.send(command)

    async def call(self, command: RemotingCommand, timeout_ms: float = 3000) -> RemotingCommand:
        self.calls.append((command, timeout_ms))
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None, "the test gave no answer"
        return self.answer

    def close(self, reason: str = "") -> None:
        self.closed = True
        self.closed_because = reason

    @property
    def commands(self) -> list[RemotingCommand]:
        """Everything sent, decoded."""
        return [decode(frame) for frame in self.sent]


class FakeRouteClient:
    """Answers route requests of the broker; without ``addresses`` there is no name server."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.answer: RemotingCommand | Exception | None = None
        self.calls = 0

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float = 3000
    ) -> RemotingCommand:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None, "the test gave no answer"
        return self.answer


def decode(frame: Any) -> RemotingCommand:
    """A command, bytes or list of buffers as the command a peer would read."""
    if isinstance(frame, RemotingCommand):
        frame = encode_frame(frame)
    elif isinstance(frame, list):
        frame = b"".join(bytes(part) for part in frame)
    (command,) = FrameDecoder().feed(frame)
    return command


class Desk:
    """A broker core with its handlers; ``ask`` is one request and its answer."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        self.clock = ManualClock()
        self.connection = FakeConnection()
        self.settings = Settings(
            {**SMALL_STORE, **properties, "storePathRootDir": str(folder / "store")}
        )
        self._open()

    def restart(self) -> None:
        """Stop in order and start again; clients and their connection are gone."""
        assert self.context.transactions is not None
        assert self.context.transactions.write_all_ops()
        assert self.context.files is not None
        self.context.files.save_progress(self.context)
        self.store.shutdown()
        self.connection = FakeConnection()
        self._open()
        self.context.files.load(self.context)

    def _open(self) -> None:
        self.turn: list[Callable[[], None]] = []
        self.deferred = False
        self.announced: list[list[str]] = []
        # Flushes that wait for ``end_flushes``; None: they happen at once.
        self.waiting_flushes: list[Callable[[], None]] | None = None
        # The loop that flush callbacks are called on; without one, flushes happen in place.
        self.loop: asyncio.AbstractEventLoop | None = None
        self.store = MessageStore(
            self.settings.store, clock=self.clock, defer=self._defer, notify=self._notify
        )
        self.store.load()
        self.store.start()
        self._flush_in_place()
        self.context = BrokerContext(self.settings, self.store, self.clock)
        self.context.soon = self._defer
        self.context.files = ConfigStore(
            self.settings.store.root,
            self.store.disk,
            lmq_enabled=self.settings.store.enable_lmq,
        )
        self.context.announce = self._announce
        self.context.delays = ScheduleMessageService(
            self.store, self.clock, parse_delay_levels(self.settings.store.message_delay_level)
        )
        self.context.transactions = TransactionalMessageService(
            TransactionalMessageBridge(
                self.store, self.context.offsets, self.clock, lambda: self.context.store_host
            ),
            self.clock,
            lambda: self.context.config,
            lambda: self.context.delays,
            timers=lambda: self.context.timers.timers if self.context.timers else None,
        )
        if self.settings.store.timer_wheel_enable:
            timers = TimerMessageStore(self.store)
            timers.load(clean=True)
            self.context.timers = TimerService(timers, self.clock, 1_000, run_in_place)
        self.pulls = PullMessageProcessor(self.context)
        self.sends = SendMessageProcessor(self.context)
        self.context.on_wake = self.pulls.arrived
        self.timer = SimulatedTimer(self.store, self.clock)
        self.wheel_timer = WheelTimer(self.store)
        self.wheel_timer.attach(self.timer)
        self.pop_service = make_service(self.context, self.wheel_timer)
        self.context.pop = self.pop_service
        self.route_client = FakeRouteClient()
        routes = RouteLookup(
            self.route_client,
            self.clock,
            lambda: self.route_client.addresses,
            self.context.topics.get,
            lambda: self.context.config.broker_name,
        )
        self.handlers = {
            **make_handlers(self.context, self.pulls, self.sends),
            **pop_handlers(self.context, self.pop_service, routes),
        }
        self.context.topics.add_system_topics()
        self.context.groups.add_preset_groups()
        self.pop_files = PopFiles(self.settings.store.root, self.store.disk)
        self.pop_files.load(self.pop_service)
        self.pop_service.revive.load()
        self.store.add_arriving_listener(self._arrived, self.context.holds.topics)
        self.store.add_arriving_listener(self._pop_arrived, WaitingTopics(self.pop_service))

    def _flush_in_place(self) -> None:
        """Without a loop, flush in the calling thread: the flush thread would race."""
        flusher, of_thread = self.store.flusher, self.store.await_flush
        touched = flusher.touched

        def await_flush(physical_end: int, callback: Callable[[Any], None]) -> None:
            if self.loop is not None:
                of_thread(physical_end, callback)
                return

            def flush() -> None:
                done = self.store.flush()
                callback(PutMessageStatus.PUT_OK if done else PutMessageStatus.FLUSH_DISK_TIMEOUT)

            if self.waiting_flushes is None:
                flush()
            else:
                self.waiting_flushes.append(flush)

        def touch() -> None:
            if self.loop is not None:
                touched()

        self.store.await_flush = await_flush
        flusher.touched = touch

    def end_flushes(self) -> None:
        """Carry out the flushes that wait."""
        waiting, self.waiting_flushes = self.waiting_flushes or [], []
        for flush in waiting:
            flush()

    def _notify(self, call: Callable[[], None]) -> None:
        if self.loop is None:
            call()
        else:
            self.loop.call_soon_threadsafe(call)

    def _defer(self, call: Callable[[], None]) -> None:
        if self.deferred:
            self.turn.append(call)
        else:
            call()

    async def _announce(self, topics: Any) -> None:
        self.announced.append(list(topics))

    def _arrived(self, topic, queue_id, max_offset, tags_code, _, properties) -> None:
        woken = self.context.holds.arrived(topic, queue_id, max_offset, tags_code, properties)
        if woken:
            self.pulls.arrived(woken)

    def _pop_arrived(self, topic, queue_id, _, tags_code, __, properties) -> None:
        # A pop writes its check point, which a listener of the dispatch must not do.
        self.turn.append(lambda: self.pop_service.arrived(topic, queue_id, tags_code, properties))

    def advance(self, ms: int, step_ms: int = 100) -> None:
        """Let time pass: timers deliver, check points are written and decided, requests expire."""
        for _ in range(0, ms, step_ms):
            self.clock.advance(step_ms)
            self.timer.run()
            while self.pop_service.run() == 0:
                pass
            self.pop_service.expire()
            self.end_turn()

    def end_turn(self) -> None:
        """Run the deferred calls until none is left."""
        while self.turn:
            calls, self.turn = self.turn, []
            for call in calls:
                call()

    def topic(self, name: str, queues: int = 4, **fields: Any) -> TopicConfig:
        """Make a topic."""
        config = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, **fields
        )
        self.context.topics.put(config)
        return config

    def raw(
        self,
        code: int,
        ext: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        connection: FakeConnection | None = None,
        version: int = 479,
        language: str = "JAVA",
        oneway: bool = False,
    ) -> Any:
        """The result of the handler, awaited."""
        fields = {name: str(value) for name, value in (ext or {}).items()}
        command = request(code, fields, body, oneway=oneway)
        command.version = version
        command.language = language
        answer = asyncio.run(_handled(self.handlers[code], connection or self.connection, command))
        if not self.deferred:
            self.end_turn()
        return answer

    def ask(self, code: int, ext: dict[str, Any] | None = None, body: bytes = b"", **how: Any):
        """The answer as a client reads it, None when there is none (yet)."""
        answer = self.raw(code, ext, body, **how)
        return None if answer is None else decode(answer)

    def send(
        self,
        topic: str = "Orders",
        body: bytes = b"hello",
        *,
        queue_id: int = 0,
        properties: dict[str, str] | None = None,
        connection: FakeConnection | None = None,
        version: int = 479,
        **fields: Any,
    ) -> RemotingCommand | None:
        """SEND_MESSAGE_V2 as a Java client sends it."""
        given = {"UNIQ_KEY": "AC11000100012A139A5518B4AAC20000", "WAIT": "true"}
        given.update(properties or {})
        ext = {
            "a": "P1",
            "b": topic,
            "c": "TBW102",
            "d": 4,
            "e": queue_id,
            "f": 0,
            "g": self.clock.now_ms(),
            "h": 0,
            "i": encode_properties({k: v for k, v in given.items() if v}).decode(),
            "j": 0,
            "k": "false",
            "m": "false",
            **fields,
        }
        return self.ask(
            RequestCode.SEND_MESSAGE_V2, ext, body, connection=connection, version=version
        )

    def pull(
        self,
        topic: str = "Orders",
        *,
        group: str = "G1",
        queue_id: int = 0,
        queue_offset: int = 0,
        connection: FakeConnection | None = None,
        **fields: Any,
    ) -> RemotingCommand | None:
        """PULL_MESSAGE with its own subscription, no suspension unless asked for."""
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": queue_offset,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 15_000,
            "subscription": "*",
            "subVersion": 0,
            **fields,
        }
        return self.ask(RequestCode.PULL_MESSAGE, ext, connection=connection)

    def messages(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        """Everything stored in one queue."""
        result = self.store.get_message(topic, queue_id, 0, 32)
        return list(scan_records(b"".join(bytes(part) for part in result.buffers)))


async def _handled(handler: Any, connection: FakeConnection, command: RemotingCommand) -> Any:
    answer = handler(connection, command)
    return await answer if inspect.isawaitable(answer) else answer
