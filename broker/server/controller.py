"""BrokerController: wires the parts of a broker together, starts and stops them in order.

::

    start   lock and load the store → tables → handlers → listen → register → timers
    stop    leave the name servers → answer what is parked → stop listening, drain → write tables
            → shut the store (flush, checkpoint, abort file)

Timers: one for the earliest deadline of parked pulls, one for the earliest due delay, and one
tick of five seconds for everything periodic (offset file, silent clients, statistics, cleaning).

**Source:** RocketMQ BrokerController#start, #shutdown.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from broker.common.clock import Clock, SystemClock
from broker.common.topic import SCHEDULE_TOPIC, is_lmq_topic, is_system_topic
from broker.errors import StoreError
from broker.remoting.client import RemotingClient
from broker.remoting.daemon import shown_host
from broker.remoting.server import Connection, LaneLimits, RemotingServer, ServerLimits
from broker.server.config import BrokerConfig
from broker.server.context import BrokerContext
from broker.server.notices import notify_members
from broker.server.persistence import ConfigStore
from broker.server.processor.pull import PullProcessor
from broker.server.processor.table import make_handlers
from broker.server.registration import Registrar
from broker.server.schedule import DelayQueues
from broker.server.settings import Settings
from broker.server.stats import SAMPLE_MS, TOPIC_PUT_NUMS, TOPIC_PUT_SIZE
from broker.store.config import parse_delay_levels
from broker.store.files import Disk
from broker.store.message_store import MessageStore
from broker.store.results import RecoveryReport

log = logging.getLogger("broker.server")

# topic, queue id, queue offset behind the message, tags code, store time, raw properties
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
            defer=self._soon,
            notify=self._from_thread,
        )
        self.context = BrokerContext(settings, self.store, self._clock)
        self.context.soon = self._soon
        self.context.files = ConfigStore(
            settings.store.root, self._disk, light_queues=settings.store.enable_lmq
        )
        self._pulls = PullProcessor(self.context)
        self.context.on_wake = self._pulls.arrived
        self.context.on_park = self._arm_hold_timer
        self._server = RemotingServer(
            make_handlers(self.context, self._pulls),
            limits=_limits(config),
            clock=self._clock,
            name="broker",
            on_close=self._connection_closed,
            allow_remote_admin=config.allow_remote_admin,
        )
        self.context.server = self._server
        self._client = RemotingClient(name="broker", on_close=self._name_server_lost)
        self._registrar = Registrar(self.context, self._client)
        self._hold_timer: asyncio.TimerHandle | None = None
        self._delay_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._due: dict[str, float] = {}
        self._writing: asyncio.Future[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._started = False

    @property
    def addresses(self) -> list[str]:
        """The addresses listened on, the main one first."""
        return self._server.addresses

    @property
    def address(self) -> str:
        """The address announced to name servers and clients, known after the start."""
        return self.context.address

    # ---- start

    async def start(self) -> None:
        """Open the store, listen, register; what was opened is closed again when it fails."""
        self._loop = asyncio.get_running_loop()
        config = self.context.config
        assert self.context.files is not None
        self.context.files.check()
        # Off the loop: signals are heard during a long recovery.
        report_recovery(await self._loop.run_in_executor(None, self.store.load))
        try:
            self._load_tables()
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
        context.delays = DelayQueues(
            self.store, self._clock, parse_delay_levels(self.store.config.message_delay_level)
        )
        context.delays.on_delivered = self._delivered
        context.files.load_delays(context)
        context.topics.on_change.append(self._topics_changed)
        context.groups.on_change.append(self._groups_changed)
        context.on_config_change.append(self._settings_changed)
        self._save_tables()
        _report_unknown_topics(context)

    def _save_tables(self) -> None:
        """Write topics and groups; a disk that does not take them is no reason not to serve."""
        context = self.context
        assert context.files is not None
        for save in (context.files.save_topics, context.files.save_groups):
            try:
                save(context)
            except (StoreError, OSError) as error:
                log.error("not written: %s", error)

    def _announce_address(self, bound_host: str) -> None:
        config = self.context.config
        port = int(self._server.addresses[0].rpartition(":")[2])
        host = config.broker_ip1 or shown_host(bound_host)
        self.context.set_address(host, port)
        for listener in self.context.on_config_change:
            listener()

    # ---- stop

    async def close(self) -> None:
        """Stop in order; safe to call after a failed start."""
        if not self._started:
            return
        self._started = False
        for timer in (self._hold_timer, self._delay_timer, self._tick_timer):
            if timer is not None:
                timer.cancel()
        await self._registrar.stop()
        self._pulls.resume(self.context.holds.take_all())
        await self._server.close(DRAIN_MS)
        await self._client.close()
        context = self.context
        assert context.files is not None
        self._save_tables()
        if self._writing is not None:
            await asyncio.wait({self._writing})
        try:
            context.files.save_progress(context)
        except (StoreError, OSError) as error:
            log.error("offsets not written: %s", error)
        self.store.shutdown()

    # ---- seams of the store and the tables

    def _soon(self, call: Callable[[], None]) -> None:
        if self._loop is None:
            call()
        else:
            self._loop.call_soon(call)

    def _from_thread(self, call: Callable[[], None]) -> None:
        if self._loop is None or self._loop.is_closed():
            call()
        else:
            self._loop.call_soon_threadsafe(call)

    def _message_arrived(self, *arrival: *Arrival) -> None:
        topic, queue_id, max_offset, tags_code, _, properties = arrival
        woken = self.context.holds.arrived(topic, queue_id, max_offset, tags_code, properties)
        if woken:
            self._pulls.arrived(woken)

    def _delay_arrived(self, *arrival: *Arrival) -> None:
        due_ms = arrival[3]
        self._wake_delays_at(max(0.0, due_ms - self._clock.now_ms()))

    def _delivered(self, topic: str, size: int) -> None:
        stats = self.context.stats
        stats.counter(TOPIC_PUT_NUMS, topic).add(1)
        stats.counter(TOPIC_PUT_SIZE, topic).add(size)
        stats.put.add(1)

    def _topics_changed(self, topics: list[str]) -> None:
        context = self.context
        assert context.files is not None
        context.files.save_topics(context)
        if self._started:
            names = topics or list(context.topics.configs)
            self._run(self._registrar.announce(names))

    def _groups_changed(self) -> None:
        assert self.context.files is not None
        self.context.files.save_groups(self.context)

    def _settings_changed(self) -> None:
        self._server.allow_remote_admin = self.context.config.allow_remote_admin

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

    def _arm_hold_timer(self) -> None:
        """Keep the timer at the earliest deadline of the parked pulls."""
        deadline_ms = self.context.holds.next_deadline_ms()
        if deadline_ms is None:
            return
        assert self._loop is not None
        wait_s = max(0.0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._hold_timer = self._earlier(self._hold_timer, wait_s, self._expire_holds)

    def _expire_holds(self) -> None:
        self._hold_timer = None
        self._pulls.resume(self.context.holds.expire(self._clock.monotonic_ms()))
        self._arm_hold_timer()

    def _earlier(
        self, timer: asyncio.TimerHandle | None, wait_s: float, call: Callable[[], None]
    ) -> asyncio.TimerHandle:
        """``timer`` if it fires in time, else one that fires in ``wait_s`` in its place."""
        assert self._loop is not None
        when = self._loop.time() + wait_s
        if timer is not None:
            if timer.when() <= when:
                return timer
            timer.cancel()
        return self._loop.call_at(when, call)

    def _wake_delays_at(self, wait_ms: float) -> None:
        self._delay_timer = self._earlier(self._delay_timer, wait_ms / 1000, self._deliver_delays)

    def _deliver_delays(self) -> None:
        self._delay_timer = None
        if not self._started or self.context.delays is None:
            return
        wait_ms = self.context.delays.deliver_due()
        if wait_ms is not None:
            self._wake_delays_at(wait_ms)

    def _tick(self) -> None:
        assert self._loop is not None
        self._tick_timer = self._loop.call_later(TICK_MS / 1000, self._tick)
        context = self.context
        if self._is_due("progress", context.config.flush_consumer_offset_interval):
            self._save_progress()
        if self._is_due("stats", SAMPLE_MS):
            context.stats.sample(context.now_ms())
        if self._is_due("clients", SCAN_CLIENTS_MS):
            self._scan_clients()
        if self._is_due("clean", self.store.config.clean_resource_interval):
            self.store.clean_expired(context.now_ms())

    def _save_progress(self) -> None:
        """Write offsets in a thread: a sync must not hold up the loop."""
        assert self._loop is not None
        assert self.context.files is not None
        if self._writing is not None and not self._writing.done():
            return  # the disk is slow: the next tick takes the changes along
        job = self.context.files.take_progress(self.context)
        if job is not None:
            self._writing = self._loop.run_in_executor(None, job)
            self._writing.add_done_callback(self._progress_saved)

    def _progress_saved(self, writing: "asyncio.Future[None]") -> None:
        error = None if writing.cancelled() else writing.exception()
        if error is not None:
            log.error("offsets not written: %s", error)
            self.context.offsets.changed = True
            if self.context.delays is not None:
                self.context.delays.changed = True

    def _is_due(self, name: str, period_ms: int) -> bool:
        now_ms = self._clock.monotonic_ms()
        due_ms = self._due.get(name)
        if due_ms is None:
            self._due[name] = now_ms + period_ms
            return False
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
    """Say what opening the store found; nothing after a clean stop."""
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
    for queue in report.rebuilt_queues:
        log.warning("recovery rebuilt the queue %s", queue)
    for note in report.notes:
        log.info("%s", note)


def _report_unknown_topics(context: BrokerContext) -> None:
    """Say which topics clients cannot see, because topics.json does not know them."""
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
    """Each address, and the port two below it; a free port (0) has no such neighbour."""
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
