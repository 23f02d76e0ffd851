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
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.common.clock import Clock, SystemClock
from broker.common.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from broker.errors import StoreError
from broker.remoting.client import RemotingClient
from broker.remoting.process.daemon import shown_host
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.rpc import RPC
from broker.remoting.security.tls import client_context, server_tls
from broker.remoting.server import Connection, Handler, RemotingServer, ServerLimits
from broker.server.client.notifications import notify_members
from broker.server.configuration.config import BrokerConfig, access_rules, name_servers
from broker.server.configuration.settings import Settings
from broker.server.context import BrokerContext
from broker.server.flow_control.lanes import lane_limits
from broker.server.ha.replication import Replication
from broker.server.ingest.loader import IngestLoader, offer_ingest
from broker.server.load_report import report_recovery, report_unknown_topics
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.server.metrics.message_type import DELAY, count_put
from broker.server.metrics.service import MetricsService
from broker.server.pop.assignment.route_lookup import RouteLookup
from broker.server.pop.files import PopFiles
from broker.server.pop.processor.table import make_handlers as pop_handlers
from broker.server.pop.processor.table import make_service
from broker.server.pop.timers import PopTimers
from broker.server.pop.wheel_timer import WheelTimer
from broker.server.processor.ordinary_pull import OrdinaryPulls
from broker.server.processor.pull import PullMessageProcessor
from broker.server.processor.query import direct_answers
from broker.server.processor.send.send import SendMessageProcessor
from broker.server.processor.table import make_handlers
from broker.server.registration import Registrar
from broker.server.role.relay import Relay
from broker.server.schedule import MAX_WAIT_MS, ScheduleMessageService
from broker.server.static_topic.clean_service import TopicQueueMappingCleanService
from broker.server.static_topic.peers import BrokerPeers
from broker.server.stats import SAMPLE_MS
from broker.server.tables.persistence import ConfigStore
from broker.server.tables.table_writer import Done
from broker.server.timer.timer_service import TimerService
from broker.server.transaction.bridge import TransactionalMessageBridge
from broker.server.transaction.check_service import TransactionalMessageCheckService
from broker.server.transaction.service import TransactionalMessageService
from broker.store.config import parse_delay_levels
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageStore
from broker.store.results import RecoveryReport
from broker.store.timer.timer_message_store import TimerMessageStore

if TYPE_CHECKING:
    from broker.server.role.role_control import RoleControl

log = logging.getLogger("broker.server")

# topic, queue id, queue offset after the message, tags code, store time (epoch ms), properties
Arrival = tuple[str, int, int, int, int, bytes]

SEND_LANE: Final = "send"
DRAIN_MS: Final = 3_000  # time for running requests to finish when the broker stops
TICK_MS: Final = 5_000
MIN_TICK_MS: Final = 100
SLOW_CONSUMERS_MS: Final = 180_000
SCAN_CLIENTS_MS: Final = 10_000
CLEAN_POP_MS: Final = 60_000
CLEAN_MAPPINGS_MS: Final = 300_000
VIP_PORT_DISTANCE: Final = 2


class BrokerController:
    """One broker: ``await start()``, ``addresses``, ``await close()``."""

    _started = False
    _tick_timer: asyncio.TimerHandle | None = None
    _ingest: IngestLoader | None = None

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        listen: Sequence[tuple[str, int]] = (),
        role_control: "RoleControl | None" = None,
    ) -> None:
        """``role_control`` decides about role changes; without it they are refused."""
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
        tls = client_context(config)
        self._client = RemotingClient(name="broker", on_close=self._name_server_lost, tls=tls)
        self.registrar = Registrar(self.context, self._client)
        # Created before the processors: with SYNC_MASTER their sends wait for its slaves.
        self.replication = Replication(self.context, self._clock, self._client, self.registrar)
        self.context.role = role_control
        if role_control is not None:
            role_control.attach(self.context, self._client, self.registrar, self.replication)
        self._pulls = PullMessageProcessor(self.context)
        self._sends = SendMessageProcessor(self.context)
        self.context.on_wake = self._pulls.arrived
        self.context.on_suspend = self._arm_pull_timer
        self._pop_timer = WheelTimer(self.store)
        self._pop = self.context.pop = make_service(self.context, self._pop_timer)
        self._pop_timers = PopTimers(self._pop, self._clock)
        self._pop_files = PopFiles(
            settings.store.root, self._disk, soon=self._call_soon, run=self._in_thread
        )
        self._relay: Relay | None = None
        self._server = RemotingServer(
            self._make_handlers(role_control),
            limits=_limits(config),
            clock=self._clock,
            name="broker",
            on_close=self._connection_closed,
            access=access_rules(config),
            memory=self.context.memory,
        )
        self._add_direct()
        self.context.server = self._server
        self._server.on_slow = self._request_was_slow
        self._pull_timer = DeadlineTimer(self._clock, self._expire_suspended_pulls)
        self._delay_timer = DeadlineTimer(self._clock, self._deliver_delays)
        self._transactions = self._make_transactions()
        self._mapping_cleaner = TopicQueueMappingCleanService(self.context)
        self.metrics = MetricsService(self.context)
        self._due: dict[str, float] = {}  # periodic work → when it is due, monotonic ms
        self._background: set[asyncio.Task[None]] = set()
        self._changed_topics: set[str] = set()

    def _make_handlers(self, control: "RoleControl | None") -> dict[int, Handler]:
        """Return the handlers; a master demoted by ``control`` forwards to the new one at first."""
        routes = RouteLookup(
            self._client,
            self._clock,
            lambda: name_servers(self.context.config),
            self.context.topics.get,
            lambda: self.context.config.broker_name,
        )
        self.context.mappings.others = BrokerPeers(self._client, self.context)
        handlers = {
            **make_handlers(self.context, self._pulls, self._sends),
            **pop_handlers(self.context, self._pop, routes),
        }
        if control is None or not self.context.config.is_slave or not control.relay_until_ms:
            return handlers
        registrar = self.registrar
        self._relay = Relay(
            self.context, self._client, lambda: registrar.master_address, control.relay_until_ms
        )
        return self._relay.wrap(handlers)

    def _add_direct(self) -> None:
        """Let reads that are one pull or query take the direct path; on a master only."""
        if self.context.config.is_slave:
            return
        ordinary = OrdinaryPulls(self.context, self._pulls)
        self._server.add_direct(RequestCode.PULL_MESSAGE, ordinary.answer)
        for code, answer in direct_answers(self.context).items():
            self._server.add_direct(code, answer)

    def _make_transactions(self) -> TransactionalMessageCheckService:
        """Set the transaction service of the context and return its check service."""
        context, clock = self.context, self._clock
        bridge = TransactionalMessageBridge(
            self.store, context.offsets, clock, lambda: context.store_host
        )
        service = context.transactions = TransactionalMessageService(
            bridge,
            clock,
            lambda: context.config,
            lambda: context.delays,
            timers=lambda: context.timers.timers if context.timers is not None else None,
        )
        service.on_committed = partial(count_put, self.context.stats)
        service.on_ended = self.context.stats.count_ended
        return TransactionalMessageCheckService(
            service, clock, lambda: context.config, context.producers, context.topics
        )

    @property
    def addresses(self) -> list[str]:
        """The listening addresses; those of the VIP port are last."""
        return self._server.addresses

    @property
    def address(self) -> str:
        """The address announced to name servers and clients, valid after the start."""
        return self.context.address

    # ---- start

    async def start(self) -> None:
        """Open the store, listen and register; if it cannot listen, everything is closed again."""
        self._loop = asyncio.get_running_loop()
        config = self.context.config
        tls = server_tls(config)
        assert self.context.files is not None
        self.context.files.check()
        self._pop_files.check()
        # In a thread: the event loop handles signals during a long recovery.
        report = await self._loop.run_in_executor(None, self._load_store)
        report_recovery(report)
        try:
            self._load_tables(report)
            await self._persist_tables()
            self.store.start()
            self._server.share.before_write = self.store.log.gather()
            listen = self._listen or [(config.bind_address, config.listen_port)]
            await self._server.start(with_vip_port(listen), tls=tls)
            self._set_address(listen[0][0])
            port = int(self._server.addresses[0].rpartition(":")[2])
            await self.replication.listen(listen[0][0], port)
            await self.metrics.start()
        except BaseException:
            await self.replication.stop()
            await self._server.close()
            self.store.shutdown()
            raise
        self._started = True
        self.store.add_arriving_listener(self._message_arrived, self.context.holds.topics)
        self.store.add_arriving_listener(self._delay_arrived, {SCHEDULE_TOPIC})
        self.context.announce = self.registrar.announce
        await self.registrar.start()
        self.replication.follow()
        sends = self._sends
        self._ingest = offer_ingest(
            self.context, self._server, lambda: sends.parts, self._in_thread
        )
        if not config.is_slave:
            self._start_delivery()
        self._tick()

    def _start_delivery(self) -> None:
        """Start the services that append: delays, timers, transactions, redelivery after pops.

        A slave has none of them: it receives their records from its master.
        """
        if self.context.timers is not None:
            self.store.add_arriving_listener(self._timer_arrived, {TIMER_TOPIC})
            self.context.timers.start()
        self._pop_timers.start(self.store)
        self._deliver_delays()
        self._transactions.start()

    def _load_store(self) -> RecoveryReport:
        """Load the store and the timers; after a failure the store is closed again."""
        report = self.store.load()
        if not self.store.config.timer_wheel_enable or self.context.config.is_slave:
            return report
        try:
            timers = TimerMessageStore(self.store)
            report.notes += timers.load(clean=report.clean)
        except OSError as error:
            self.store.shutdown()
            path = str(error.filename or self.store.config.root)
            raise StoreError(
                f"{path}: {error.strerror or error}",
                "the timer files cannot be read: check the disk",
                path=path,
            ) from error
        except BaseException:
            self.store.shutdown()
            raise
        self.context.timers = TimerService(
            timers, self._clock, self.store.config.timer_flush_interval_ms, self._in_thread
        )
        timers.on_delivered = partial(count_put, self.context.stats)
        return report

    def _load_tables(self, report: RecoveryReport) -> None:
        context = self.context
        assert context.files is not None
        context.files.load(context)
        context.files.progress.sources += [
            lambda *_: self._pop_files.snapshot_orders(self._pop),
            lambda *_: self._transactions.snapshot_metrics(),
        ]
        context.topics.restore_batch_topics(report.batch_topics)
        context.topics.add_system_topics()
        context.groups.add_preset_groups()
        context.delays = ScheduleMessageService(
            self.store, self._clock, parse_delay_levels(self.store.config.message_delay_level)
        )
        context.delays.on_delivered = partial(count_put, context.stats, kind=DELAY)
        context.files.load_delays(context)
        self._pop_files.load(self._pop)
        self._transactions.load()
        if context.timers is not None:
            self._pop_timer.attach(context.timers.timers)
        self._pop.revive.load()
        context.topics.on_change.append(self._topics_changed)
        report_unknown_topics(context)

    async def _persist_tables(self) -> None:
        """Write topics and groups; the broker serves even if they cannot be written."""
        for table in (self.context.topics, self.context.groups):
            with contextlib.suppress(StoreError, OSError):  # logged by the table's writer
                await table.persist()

    def _set_address(self, bound_host: str) -> None:
        """Set the address that is announced, once the port is known; notify the listeners."""
        config = self.context.config
        port = int(self._server.addresses[0].rpartition(":")[2])
        host = config.broker_ip1 or shown_host(bound_host)
        self.context.set_address(host, port)
        for listener in self.context.on_config_change:
            listener()

    # ---- stop

    async def close(self, *, unregister: bool = True) -> None:
        """Stop in order; safe after a failed start.

        Without ``unregister`` name servers keep the address until it registers in another role.
        """
        if not self._started:
            return
        self._started = False
        self._pull_timer.cancel()
        self._delay_timer.cancel()
        if self._ingest is not None:
            self._ingest.stop()
        if self.context.timers is not None:
            self.context.timers.stop()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self._mapping_cleaner.stop()
        self.metrics.close()
        await self.registrar.stop(unregister=unregister)
        await self.replication.stop()
        self._pulls.resume(self.context.holds.take_all())
        self._pop_timers.stop()
        if self._relay is not None:
            self._relay.stop()
        await self._server.close(DRAIN_MS)
        await self._client.close()
        self._transactions.stop()
        context = self.context
        assert context.files is not None
        await self._persist_tables()
        await context.files.progress.ended()
        try:
            self._pop.flush_buffer()
            context.files.save_progress(context)
            self._pop_files.save_orders(self._pop)
            self._transactions.save_metrics()
        except (StoreError, OSError) as error:
            log.error("offsets not written: %s", error)
        if context.timers is not None:
            await context.timers.close()
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
        """Run a blocking job in a thread; then ``done(error or None)`` runs on the event loop."""
        assert self._loop is not None
        running = self._loop.run_in_executor(None, job)
        running.add_done_callback(lambda ended: done(ended.exception()))

    def _message_arrived(self, *arrival: *Arrival) -> None:
        topic, queue_id, max_offset, tags_code, _, properties = arrival
        woken = self.context.holds.arrived(topic, queue_id, max_offset, tags_code, properties)
        if woken:
            self._pulls.arrived(woken)

    def _delay_arrived(self, *arrival: *Arrival) -> None:
        if self.context.delays is not None:  # the tags code in SCHEDULE_TOPIC is the due time
            self._wake_delays_in(self.context.delays.wait_ms(arrival[3]))

    def _timer_arrived(self, *_: *Arrival) -> None:
        if self.context.timers is not None:
            self.context.timers.wake()

    def _topics_changed(self, topics: list[str]) -> None:
        """Announce the changes of this event-loop iteration together: many topics cost one task."""
        if not self._started:
            return
        if not self._changed_topics:
            self._call_soon(self._announce_changes)
        self._changed_topics.update(topics or self.context.topics.configs)  # []: every topic

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
        await self.registrar.announce(topics)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- connections

    def _connection_closed(self, connection: Connection) -> None:
        context = self.context
        context.holds.drop_connection(connection)
        self._pop.drop_connection(connection)
        context.producers.drop_connection(connection)
        for group in context.consumers.drop_connection(connection):
            notify_members(context, group)

    def _request_was_slow(self, code: int, ms: float) -> None:
        """Answer SYSTEM_BUSY to the sends in the queue after an append that was too slow.

        **Source:** RocketMQ SendMessageProcessor#rejectRequest, BrokerFastFailure.
        """
        limit_ms = self.store.config.os_page_cache_busy_time_out_mills
        rpc = RPC.get(code)
        if rpc is not None and rpc.lane == SEND_LANE and ms >= limit_ms:
            log.warning("an append took %.0f ms, the limit is %d ms", ms, limit_ms)
            self._server.reject_lane(SEND_LANE, "the broker's disk is busy, try again later")

    def _name_server_lost(self, connection: Connection) -> None:
        if self._started:
            self.registrar.connection_lost()

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
        if not self._started or self.context.delays is None or self.context.config.is_slave:
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
        self._tick_timer = self._loop.call_later(self._tick_ms() / 1000, self._tick)
        self.run_periodic_work()

    def run_periodic_work(self) -> None:
        """Do the periodic work that is due; called at each tick."""
        context = self.context
        offsets = self._is_due("offsets", context.config.flush_consumer_offset_interval)
        delays = self._is_due("delays", self.store.config.flush_delay_offset_interval)
        metrics = self._is_due("metrics", context.config.transaction_metric_flush_interval)
        if offsets or delays or metrics:
            assert context.files is not None
            context.files.progress.write(offsets=offsets, delays=delays)
        if offsets:
            context.topics.retry_write()
            context.groups.retry_write()
            self._pop.modes.retry_write()
        if self._is_due("stats", SAMPLE_MS):
            context.stats.sample(context.now_ms())
        if self._is_due("clients", SCAN_CLIENTS_MS):
            self._scan_clients()
        if self._is_due("pop", CLEAN_POP_MS):
            self._pop.clean()
        if self._is_due("slow consumers", SLOW_CONSUMERS_MS):
            context.slow_consumers.disable(context.config)
        if self._is_due("static topics", CLEAN_MAPPINGS_MS):
            self._run(self._mapping_cleaner.run())
        if self._is_due("clean", self.store.config.clean_resource_interval):
            self.store.clean_expired(context.now_ms())
            if context.timers is not None:
                context.timers.delete_expired()

    def _tick_ms(self) -> int:
        """Return TICK_MS, or the shorter of the flush intervals of the offsets, in ms."""
        offsets_ms = self.context.config.flush_consumer_offset_interval
        delays_ms = self.store.config.flush_delay_offset_interval
        return max(MIN_TICK_MS, min(TICK_MS, offsets_ms, delays_ms))

    def _is_due(self, name: str, period_ms: int) -> bool:
        """Whether periodic work is due, which schedules it again; the first call only schedules."""
        now_ms = self._clock.monotonic_ms()
        due_ms = self._due.get(name)
        if due_ms is None:
            self._due[name] = now_ms + period_ms
            return False
        # Due at the tick that is nearest to the due time.
        if now_ms + self._tick_ms() / 2 < due_ms:
            return False
        self._due[name] = now_ms + period_ms
        return True

    def _scan_clients(self) -> None:
        """Release expired queue locks, close connections without a heartbeat."""
        context = self.context
        now_ms, limit_ms = context.now_ms(), context.config.channel_expired_timeout
        context.locks.expire(int(self._clock.monotonic_ms()))
        silent = context.consumers.expire(now_ms, limit_ms)
        silent += context.producers.expire(now_ms, limit_ms)
        for channel in silent:
            channel.connection.close(f"client {channel.client_id} sent no heartbeat")


def with_vip_port(listen: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return each address and the VIP port two below it; port 0 (any free port) has none."""
    vip = [(host, port - VIP_PORT_DISTANCE) for host, port in listen if port > VIP_PORT_DISTANCE]
    return [*listen, *vip]


def _limits(config: BrokerConfig) -> ServerLimits:
    return ServerLimits(
        connections=config.max_connections,
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        lanes=lane_limits(config),
    )
