"""BrokerController: wires the parts of a broker together, starts and stops them in order.

::

    start   check config files → lock and load the store → tables → listen → register → timers
    stop    unregister → resume suspended pulls → stop listening, drain → write tables
            → shut down the store (flush, checkpoint, abort file)

Timers: one for the earliest deadline of suspended pulls, one for the earliest due delayed message,
and one tick of five seconds for periodic work (offset files, failed table writes, silent clients,
statistics, cleaning).

**Source:** RocketMQ BrokerController#start, #shutdown.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from broker.common.clock import Clock, SystemClock
from broker.common.topic import SCHEDULE_TOPIC, is_lmq_topic, is_system_topic
from broker.errors import StoreError
from broker.remoting.client import RemotingClient
from broker.remoting.daemon import shown_host
from broker.remoting.server import Connection, LaneLimits, RemotingServer, ServerLimits
from broker.server import config as role
from broker.server.config import BrokerConfig
from broker.server.context import BrokerContext
from broker.server.deadline_timer import DeadlineTimer
from broker.server.notifications import notify_members
from broker.server.persistence import ConfigStore
from broker.server.processor.pull import PullMessageProcessor
from broker.server.processor.table import make_handlers
from broker.server.registration import Registrar
from broker.server.schedule import MAX_WAIT_MS, ScheduleMessageService
from broker.server.settings import Settings
from broker.server.stats import SAMPLE_MS, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE
from broker.server.table_writer import Done
from broker.store.config import parse_delay_levels
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageStore
from broker.store.results import RecoveryReport

log = logging.getLogger("broker.server")

# topic, queue id, queue offset after the message, tags code, store time, raw properties
Arrival = tuple[str, int, int, int, int, bytes]

DRAIN_MS: Final = 3_000
TICK_MS: Final = 5_000
SCAN_CLIENTS_MS: Final = 10_000
VIP_PORT_DISTANCE: Final = 2
_NAMED_TOPICS: Final = 10


class BrokerController:
    """One broker: ``await start()``, ``addresses``, ``await close()``."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        listen: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._clock = clock or SystemClock()
        self._disk = disk or Disk()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listen = list(listen)
        config = settings.broker
        self.store = MessageStore(
            settings.store,
            clock=self._clock,
            disk=self._disk,
            defer=self._call_soon,
            notify=self._call_soon_threadsafe,
        )
        self.context = BrokerContext(settings, self.store, self._clock)
        self.context.soon = self._call_soon
        self.context.files = ConfigStore(
            settings.store.root,
            self._disk,
            lmq_enabled=settings.store.enable_lmq,
            soon=self._call_soon,
            run=self._in_thread,
        )
        self._pulls = PullMessageProcessor(self.context)
        self.context.on_wake = self._pulls.arrived
        self.context.on_suspend = self._arm_pull_timer
        self._server = RemotingServer(
            make_handlers(self.context, self._pulls),
            limits=_limits(config),
            clock=self._clock,
            name="broker",
            on_close=self._connection_closed,
            access=role.access_rules(config),
            memory=self.context.memory,
        )
        self.context.server = self._server
        self._client = RemotingClient(name="broker", on_close=self._name_server_lost)
        self._registrar = Registrar(self.context, self._client)
        self._pull_timer = DeadlineTimer(self._clock, self._expire_suspended_pulls)
        self._delay_timer = DeadlineTimer(self._clock, self._deliver_delays)
        self._tick_timer: asyncio.TimerHandle | None = None
        self._due: dict[str, float] = {}
        self._writing: asyncio.Future[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._changed_topics: set[str] = set()
        self._started = False

    @property
    def addresses(self) -> list[str]:
        """The listening addresses, the main one first."""
        return self._server.addresses

    @property
    def address(self) -> str:
        """The address announced to name servers and clients, valid after the start."""
        return self.context.address

    # ---- start

    async def start(self) -> None:
        """Open the store, listen and register; after a failure everything is closed again."""
        self._loop = asyncio.get_running_loop()
        config = self.context.config
        assert self.context.files is not None
        self.context.files.check()
        # In a thread: the event loop handles signals during a long recovery.
        report_recovery(await self._loop.run_in_executor(None, self.store.load))
        try:
            self._load_tables()
            await self._persist_tables()
            self.store.start()
            listen = self._listen or [(config.bind_address, config.listen_port)]
            await self._server.start(_with_vip(listen))
            self._announce_address(listen[0][0])
        except BaseException:
            await self._server.close()
            self.store.shutdown()
            raise
        self._started = True
        self.store.add_arriving_listener(self._message_arrived, self.context.holds.topics)
        self.store.add_arriving_listener(self._delay_arrived, {SCHEDULE_TOPIC})
        self.context.announce = self._registrar.announce
        await self._registrar.start()
        self._deliver_delays()
        self._tick()

    def _load_tables(self) -> None:
        context = self.context
        assert context.files is not None
        context.files.load(context)
        context.topics.add_system_topics()
        context.groups.add_preset_groups()
        context.delays = ScheduleMessageService(
            self.store, self._clock, parse_delay_levels(self.store.config.message_delay_level)
        )
        context.delays.on_delivered = self._delivered
        context.files.load_delays(context)
        context.topics.on_change.append(self._topics_changed)
        _report_unknown_topics(context)

    async def _persist_tables(self) -> None:
        """Write topics and groups; the broker serves even if they cannot be written."""
        for table in (self.context.topics, self.context.groups):
            with contextlib.suppress(StoreError, OSError):  # logged by the table's writer
                await table.persist()

    def _announce_address(self, bound_host: str) -> None:
        config = self.context.config
        port = int(self._server.addresses[0].rpartition(":")[2])
        host = config.broker_ip1 or shown_host(bound_host)
        self.context.set_address(host, port)
        for listener in self.context.on_config_change:
            listener()

    # ---- stop

    async def close(self) -> None:
        """Stop in order; safe after a failed start."""
        if not self._started:
            return
        self._started = False
        self._pull_timer.cancel()
        self._delay_timer.cancel()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        await self._registrar.stop()
        self._pulls.resume(self.context.holds.take_all())
        await self._server.close(DRAIN_MS)
        await self._client.close()
        context = self.context
        assert context.files is not None
        await self._persist_tables()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        try:
            context.files.save_progress(context)
        except (StoreError, OSError) as error:
            log.error("offsets not written: %s", error)
        self.store.shutdown()

    # ---- callbacks of the store and the tables

    def _call_soon(self, call: Callable[[], None]) -> None:
        if self._loop is None:
            call()
        else:
            self._loop.call_soon(call)

    def _call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        if self._loop is None or self._loop.is_closed():
            call()
        else:
            self._loop.call_soon_threadsafe(call)

    def _in_thread(self, job: Callable[[], None], done: Done) -> None:
        """Write a table file in a thread; ``done`` is called on the event loop."""
        assert self._loop is not None
        running = self._loop.run_in_executor(None, job)
        running.add_done_callback(lambda ended: done(ended.exception()))

    def _message_arrived(self, *arrival: *Arrival) -> None:
        topic, queue_id, max_offset, tags_code, _, properties = arrival
        woken = self.context.holds.arrived(topic, queue_id, max_offset, tags_code, properties)
        if woken:
            self._pulls.arrived(woken)

    def _delay_arrived(self, *arrival: *Arrival) -> None:
        delays = self.context.delays
        if delays is not None:
            self._wake_delays_in(delays.wait_ms(arrival[3]))

    def _delivered(self, topic: str, size: int) -> None:
        stats = self.context.stats
        stats.counter(TOPIC_PUT_NUMS, topic).add(1)
        stats.counter(TOPIC_PUT_SIZE, topic).add(size)
        stats.put.add(1)

    def _topics_changed(self, topics: list[str]) -> None:
        """Announce the changes of this event-loop iteration together: many topics cost one task."""
        if not self._started:
            return
        if not self._changed_topics:
            self._call_soon(self._announce_changes)
        self._changed_topics.update(topics or self.context.topics.configs)

    def _announce_changes(self) -> None:
        topics, self._changed_topics = self._changed_topics, set()
        if self._started:
            self._run(self._announce_persisted(topics))

    async def _announce_persisted(self, topics: set[str]) -> None:
        """Announce changed topics once persisted: name servers would keep a rolled-back topic."""
        try:
            await self.context.topics.persist()
        except (StoreError, OSError):
            return
        await self._registrar.announce(topics)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- connections

    def _connection_closed(self, connection: Connection) -> None:
        context = self.context
        context.holds.drop_connection(connection)
        context.producers.drop_connection(connection)
        for group in context.consumers.drop_connection(connection):
            notify_members(context, group)

    def _name_server_lost(self, connection: Connection) -> None:
        if self._started:
            self._registrar.connection_lost()

    # ---- timers

    def _arm_pull_timer(self) -> None:
        """Arm the timer for the earliest deadline of the suspended pulls."""
        deadline_ms = self.context.holds.next_deadline_ms()
        if deadline_ms is not None:
            self._pull_timer.arm(deadline_ms)

    def _expire_suspended_pulls(self) -> None:
        self._pulls.resume(self.context.holds.expire(self._clock.monotonic_ms()))
        self._arm_pull_timer()

    def _wake_delays_in(self, wait_ms: float) -> None:
        self._delay_timer.arm(self._clock.monotonic_ms() + wait_ms)

    def _deliver_delays(self) -> None:
        if not self._started or self.context.delays is None:
            return
        try:
            wait_ms = self.context.delays.deliver_due()
        except Exception:  # no error may end the delivery: this call arms the next one
            log.exception("delayed messages: delivery failed, next attempt in %d ms", MAX_WAIT_MS)
            wait_ms = MAX_WAIT_MS
        if wait_ms is not None:
            self._wake_delays_in(wait_ms)

    def _tick(self) -> None:
        assert self._loop is not None
        self._tick_timer = self._loop.call_later(TICK_MS / 1000, self._tick)
        context = self.context
        if self._is_due("progress", context.config.flush_consumer_offset_interval):
            self._save_progress()
            context.topics.retry_write()
            context.groups.retry_write()
        if self._is_due("stats", SAMPLE_MS):
            context.stats.sample(context.now_ms())
        if self._is_due("clients", SCAN_CLIENTS_MS):
            self._scan_clients()
        if self._is_due("clean", self.store.config.clean_resource_interval):
            self.store.clean_expired(context.now_ms())

    def _save_progress(self) -> None:
        """Write offsets in a thread: a sync must not block the event loop."""
        assert self._loop is not None
        assert self.context.files is not None
        if self._writing is not None and not self._writing.done():
            return  # the disk is slow: the next tick writes these changes too
        job = self.context.files.snapshot_progress(self.context)
        if job is not None:
            self._writing = self._loop.run_in_executor(None, job)
            self._writing.add_done_callback(self._progress_saved)

    def _progress_saved(self, writing: "asyncio.Future[None]") -> None:
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            log.error("offsets not written: %s", error)

    def _is_due(self, name: str, period_ms: int) -> bool:
        now_ms = self._clock.monotonic_ms()
        due_ms = self._due.get(name)
        if due_ms is None:
            self._due[name] = now_ms + period_ms
            return False
        # Due at the tick that is nearest to the due time.
        if now_ms + TICK_MS / 2 < due_ms:
            return False
        self._due[name] = now_ms + period_ms
        return True

    def _scan_clients(self) -> None:
        context = self.context
        now_ms, limit_ms = context.now_ms(), context.config.channel_expired_timeout
        context.locks.expire(int(self._clock.monotonic_ms()))
        silent = context.consumers.expire(now_ms, limit_ms)
        silent += context.producers.expire(now_ms, limit_ms)
        for channel in silent:
            channel.connection.close(f"client {channel.client_id} sent no heartbeat")


def report_recovery(report: RecoveryReport) -> None:
    """Log what the recovery found and changed; no output after a clean stop."""
    if not report.clean:
        log.warning(
            "the store was not stopped cleanly: read %d bytes from %d in %.0f ms, dispatched %d",
            report.scanned_bytes,
            report.scanned_from,
            report.milliseconds,
            report.dispatched,
        )
    for damage in report.damages:
        log.error(
            "%s: %d bytes at physical offset %d: %s: %s",
            damage.path,
            damage.length,
            damage.physical_offset,
            damage.reason,
            damage.action,
        )
    for path in report.removed_files:
        log.warning("recovery removed %s", path)
    for note in report.notes:
        log.info("%s", note)


def _report_unknown_topics(context: BrokerContext) -> None:
    """Log the topics that clients cannot see because topics.json has no entry for them."""
    unknown = [
        name
        for name in context.store.queues()
        if name not in context.topics and not is_system_topic(name) and not is_lmq_topic(name)
    ]
    if unknown:
        log.warning(
            "topics.json has no entry for %d topics that have messages (%s%s): clients do not see"
            " them; `mqadmin topic create` or `mqadmin store repair` brings them back",
            len(unknown),
            ", ".join(unknown[:_NAMED_TOPICS]),
            ", …" if len(unknown) > _NAMED_TOPICS else "",
        )


def _with_vip(listen: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return each address and the VIP port two below it; port 0 (any free port) has none."""
    vip = [(host, port - VIP_PORT_DISTANCE) for host, port in listen if port > VIP_PORT_DISTANCE]
    return [*listen, *vip]


def _limits(config: BrokerConfig) -> ServerLimits:
    return ServerLimits(
        connections=config.max_connections,
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        lanes={
            "send": LaneLimits(queue_limit=config.send_thread_pool_queue_capacity, wait_ms=200),
            "pull": LaneLimits(queue_limit=config.pull_thread_pool_queue_capacity, wait_ms=5_000),
            "litePull": LaneLimits(
                queue_limit=config.pull_thread_pool_queue_capacity, wait_ms=5_000
            ),
            "query": LaneLimits(queue_limit=20_000),
            "heartbeat": LaneLimits(queue_limit=50_000, wait_ms=31_000),
            "admin": LaneLimits(queue_limit=10_000, wait_ms=5_000),
        },
    )
