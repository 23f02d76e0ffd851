"""RoleControl: the decisions about the role of this broker; one object for the whole process.

::

    fence(epoch, target)   promise the epoch to a target; a master stops writes and registrations
    promote(epoch)         only the promised target, only with the expected log: become the master
    demote(epoch, id)      a fenced master or a slave: become a slave

A switch starts with promises of all reachable brokers of the name. A broker promises an epoch to
one target only, and only above the epochs it knows, so of two switches at once at most one gets
the promises of both targets. Every step is written to the role file before its answer, and may be
repeated.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from broker.errors import RocketMQError, StoreError
from broker.remoting.protocol.body.ha import EpochEntry
from broker.remoting.protocol.body.role import BrokerRoleInfo
from broker.server.configuration.settings import Settings
from broker.server.role.peer_check import PeerCheck, Verdict
from broker.server.role.role_state import REPLICATION_KEYS, EpochStart, RoleFile, RoleState

if TYPE_CHECKING:
    from broker.server.context import BrokerContext
    from broker.server.ha.replication import Replication
    from broker.server.ha.slave_synchronize import Caller
    from broker.server.registration import Registrar

log = logging.getLogger("broker.server")

# Clients look up routes every 30 s (pollNameServerInterval): twice that, then nobody is left.
RELAY_MS: Final = 60_000


class RoleRefusedError(RocketMQError):
    """The requested step contradicts the state of this broker."""


class RoleControl:
    """The role of one broker process; used on its event loop."""

    def __init__(self, settings: Settings, file: RoleFile, restart: Callable[[], None]) -> None:
        """``settings`` are those of broker.conf; ``restart`` starts the broker in its new role."""
        self.state = RoleState()
        # A restart into the next role is under way.
        self.changing = False
        # Monotonic ms until which requests are forwarded to the new master.
        self.relay_until_ms = 0.0
        self._settings = settings
        self._file = file
        self._restart = restart
        self._lock = asyncio.Lock()

    def load(self) -> Settings:
        """Read the role file; return the effective settings. StoreError, ConfigError."""
        self.state = self._file.load()
        return self.effective()

    def effective(self) -> Settings:
        """Return the settings with those of the role file."""
        overlay = self.state.overlay()
        if not overlay:
            return self._settings
        settings = self._settings.with_role(overlay, self._file.path)
        before, now = self._settings.broker, settings.broker
        if (before.broker_role, before.broker_id) != (now.broker_role, now.broker_id):
            log.warning(
                "brokerRole=%s brokerId=%d as in %s (epoch %d), not brokerRole=%s brokerId=%d"
                " as configured",
                *(now.broker_role, now.broker_id, self._file.path, self.state.epoch),
                *(before.broker_role, before.broker_id),
            )
        return settings

    def attach(
        self,
        context: "BrokerContext",
        client: "Caller",
        registrar: "Registrar",
        replication: "Replication",
    ) -> None:
        """Take over the parts of a broker that is about to start."""
        self._context = context
        self._registrar = registrar
        self._replication = replication
        self._peers = PeerCheck(context, client)
        self.changing = False
        if context.config.is_slave:
            return
        registrar.before_round = self._check_peers
        if self.fenced:
            self._fence(self._promise_reason())
        elif self.state.had_slaves:
            # Until the first round: another broker may have been promoted meanwhile.
            self._fence("this broker has not asked the other brokers of its name yet")

    @property
    def fenced(self) -> bool:
        """True for a master that has promised a later epoch."""
        state = self.state
        return state.promised_epoch > state.epoch and not self._context.config.is_slave

    def _promise_reason(self) -> str:
        state = self.state
        return (
            f"the master of this broker name changes: epoch {state.promised_epoch} is promised to"
            f" {state.promised_to}"
        )

    def _fence(self, reason: str, *, replaced: bool = False) -> None:
        """Refuse writes. A master that was ``replaced`` is not registered any more.

        Until then it is: its slave finds its HA address at the name server.
        """
        flags = self._context.store.flags
        if flags.refusal != reason:
            log.warning("writes are refused: %s", reason)
        flags.fence(reason)
        self._registrar.suspended = replaced

    def _unfence(self) -> None:
        self._context.store.flags.unfence()
        self._registrar.suspended = False

    async def _check_peers(self) -> None:
        """Fence this master if another broker of its name has a later epoch."""
        had_slaves = self.state.had_slaves
        verdict = await self._peers.ask(must_answer=had_slaves)
        if self._context.config.is_slave or self.changing:
            return
        async with self._lock:
            await self._note_peers(verdict)
        self._apply(verdict)

    async def _note_peers(self, verdict: Verdict) -> None:
        """Keep that this master has slaves, and the latest promise of another broker."""
        state = self.state
        known = max(state.epoch, state.promised_epoch)
        if verdict.epoch > state.epoch:
            log.error(
                "%s has epoch %d, this broker %d: it must not be the master any more;"
                " mqadmin broker demote makes it a slave",
                *(verdict.address, verdict.epoch, state.epoch),
            )
        if verdict.epoch > known:
            promise = verdict.epoch, verdict.address
        elif verdict.promised_epoch > known:
            promise = verdict.promised_epoch, verdict.promised_to
        else:
            promise = state.promised_epoch, state.promised_to
        new = msgspec.structs.replace(
            state,
            had_slaves=state.had_slaves or bool(self._context.ha_status().ha_connection_info),
            promised_epoch=promise[0],
            promised_to=promise[1],
        )
        if new != state:
            await self._persist(new)

    def _apply(self, verdict: Verdict) -> None:
        if self.fenced:
            self._fence(self._promise_reason(), replaced=verdict.epoch > self.state.epoch)
        elif verdict.silent:
            self._fence(
                f"{verdict.silent} is registered as the master of this broker name and does not"
                " answer: writes wait until the name server has removed it",
                replaced=True,
            )
        else:
            if not self._context.store.flags.writable:
                log.info("no other broker is the master of this name")
            self._unfence()

    # ---- steps of a switch

    async def fence(self, epoch: int, target: str) -> None:
        """Promise ``epoch`` to the broker at ``target``; RoleRefusedError, StoreError."""
        async with self._lock:
            state = self.state
            if epoch <= state.epoch:
                raise RoleRefusedError(f"epoch {epoch} is not above this broker's {state.epoch}")
            promise = (state.promised_epoch, state.promised_to)
            if epoch < promise[0] or (epoch == promise[0] and target != promise[1]):
                raise RoleRefusedError(
                    f"epoch {promise[0]} is already promised to {promise[1]}",
                    f"finish that switch with: mqadmin broker promote {promise[1]}",
                )
            master = not self._context.config.is_slave
            was_fenced = self.fenced
            if master:
                self._fence(f"the master of this broker name changes to {target}")
            try:
                changed = msgspec.structs.replace(
                    state, promised_epoch=epoch, promised_to=target, had_slaves=True
                )
                await self._persist(changed)
            except StoreError:
                if master and not was_fenced:
                    self._unfence()
                raise

    async def synchronize(self) -> None:
        """Slave: copy the master's tables now; RoleRefusedError if that fails."""
        if not self._context.config.is_slave:
            raise RoleRefusedError("this broker is a master: it copies no tables")
        problem = await self._replication.synchronize()
        if problem:
            raise RoleRefusedError(f"the tables of the master were not copied: {problem}")

    async def promote(
        self, epoch: int, expected_offset: int, properties: Mapping[str, str]
    ) -> None:
        """Become the master of ``epoch``; RoleRefusedError, ConfigError, StoreError."""
        async with self._lock:
            state, context = self.state, self._context
            slave = context.config.is_slave
            if not slave and state.epoch == epoch and not self.fenced:
                return
            self._check_promise(epoch)
            end = context.store.max_physical_offset
            if end < expected_offset:
                raise RoleRefusedError(
                    f"this broker's log ends at {end}, {expected_offset - end} bytes before the"
                    f" expected {expected_offset}"
                )
            role = properties.get("brokerRole", self._master_role())
            kept = {key: value for key, value in properties.items() if key in REPLICATION_KEYS}
            new = msgspec.structs.replace(
                state,
                role="MASTER",
                broker_id=0,
                master_role=role,
                epoch=epoch,
                had_slaves=True,
                replaced_master=self._registrar.master_address if slave else "",
                replication_properties=kept or state.replication_properties,
                epochs=(*state.epochs, EpochStart(epoch=epoch, start_offset=end)),
            )
            self._settings.with_role(new.overlay(), self._file.path)
            await self._persist(new)
            log.warning("this broker is the master of epoch %d from offset %d on", epoch, end)
            if slave:
                self._change()
            else:
                self._unfence()
                self._registrar.connection_lost()

    def _check_promise(self, epoch: int) -> None:
        state = self.state
        if epoch <= state.epoch:
            raise RoleRefusedError(f"epoch {epoch} is not above this broker's {state.epoch}")
        if (state.promised_epoch, state.promised_to) != (epoch, self._context.address):
            promised = (
                f"epoch {state.promised_epoch} is promised to {state.promised_to}"
                if state.promised_epoch
                else "nothing is promised"
            )
            raise RoleRefusedError(
                f"epoch {epoch} is not promised to this broker: {promised}",
                "run mqadmin broker promote again",
            )

    async def demote(self, epoch: int, broker_id: int) -> None:
        """Become the slave ``broker_id``; RoleRefusedError, ConfigError, StoreError."""
        async with self._lock:
            state, config = self.state, self._context.config
            if config.is_slave and config.broker_id == broker_id and state.epoch >= epoch:
                return
            if broker_id <= 0:
                raise RoleRefusedError(f"brokerId {broker_id}: a slave has an id above 0")
            if not config.is_slave and not self.fenced:
                raise RoleRefusedError(
                    "this broker is the master and accepts writes",
                    "promote a slave: mqadmin broker promote",
                )
            if epoch < max(state.epoch, state.promised_epoch):
                raise RoleRefusedError(f"epoch {epoch} is below {state.promised_epoch}")
            new = msgspec.structs.replace(
                state,
                role="SLAVE",
                broker_id=broker_id,
                epoch=epoch,
                master_role=self._master_role(),
                replication_properties=self._replication_properties(),
            )
            self._settings.with_role(new.overlay(), self._file.path)
            await self._persist(new)
            log.warning("this broker becomes the slave %d in epoch %d", broker_id, epoch)
            if not config.is_slave:
                self.relay_until_ms = self._context.clock.monotonic_ms() + RELAY_MS
            self._change()

    def _change(self) -> None:
        self.changing = True
        self._restart()

    async def _persist(self, state: RoleState) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._file.persist, state)
        self.state = state

    # ---- information

    def _master_role(self) -> str:
        config = self._context.config
        return self.state.master_role if config.is_slave else config.broker_role

    def _replication_properties(self) -> dict[str, str]:
        """Return the durability settings of a master of this name, as far as they are known."""
        if self._context.config.is_slave:
            return dict(self.state.replication_properties)
        shown = self._context.settings.shown()
        return {key: shown[key] for key in REPLICATION_KEYS if key in shown}

    def info(self) -> BrokerRoleInfo:
        """Return the state as GET_BROKER_ROLE answers it."""
        context, state, replication = self._context, self.state, self._replication
        config, store = context.config, context.store
        slave = context.ha_status().ha_client_runtime_info if config.is_slave else None
        fence = "" if config.is_slave or store.flags.writable else store.not_writable_reason
        return BrokerRoleInfo(
            cluster_name=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=config.broker_id,
            address=context.address,
            role=config.broker_role,
            epoch=state.epoch,
            promised_epoch=state.promised_epoch,
            promised_to=state.promised_to,
            fenced_reason=fence,
            replaced_master=state.replaced_master,
            writable=store.writable,
            min_offset=max(0, store.min_physical_offset),
            max_offset=store.max_physical_offset,
            flushed_offset=store.log.flushed_where,
            master_address=self._registrar.master_address if slave is not None else "",
            master_end_offset=slave.master_flush_offset if slave is not None else 0,
            connected=bool(slave is not None and slave.is_activated),
            problem=replication.problem,
            diverged_at=-1 if replication.diverged_at is None else replication.diverged_at,
            changing=self.changing,
            replication_properties={
                "brokerRole": self._master_role(),
                **self._replication_properties(),
            },
            epochs=self._epochs(),
        )

    def _epochs(self) -> list[EpochEntry]:
        starts = self.state.epochs
        ends = [*(start.start_offset for start in starts[1:]), 2**63 - 1][: len(starts)]
        return [
            EpochEntry(epoch=start.epoch, start_offset=start.start_offset, end_offset=end)
            for start, end in zip(starts, ends, strict=True)
        ]
