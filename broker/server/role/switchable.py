"""SwitchableBroker: the broker of a process, whose role may change while it runs.

A change closes the BrokerController of one role and starts one of the next on the same addresses
and the same store. Online clients are carried over: they send heartbeats only every 30 s, and until
then pulls would be refused and rebalances would see no members.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.common.address import parse_address
from broker.common.clock import Clock, SystemClock
from broker.server.client.clients import ClientChannel, ConsumerGroup
from broker.server.configuration.settings import Settings
from broker.server.controller import BrokerController
from broker.server.role.role_control import RoleControl
from broker.server.role.role_state import RoleFile
from broker.store.logfile.disk import Disk

if TYPE_CHECKING:
    from broker.server.serving import Listen

log = logging.getLogger("broker.server")

# Carried-over clients that send no heartbeat are removed after this time.
CARRIED_MS: Final = 60_000


class SwitchableBroker:
    """``await start()``, ``address``, ``await close()``; ``on_failure`` after a failed change."""

    def __init__(
        self,
        settings: Settings,
        listen: "Listen",
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        on_failure: Callable[[], None] | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._disk = disk or Disk()
        self._listen = list(listen)
        self._on_failure = on_failure
        self._failure: BaseException | None = None
        self._change: asyncio.Task[None] | None = None
        self.control = RoleControl(
            settings, RoleFile(settings.store.root, self._disk), self._begin_change
        )
        self.controller: BrokerController | None = None

    @property
    def address(self) -> str:
        """The address announced to name servers and clients."""
        assert self.controller is not None, "not started"
        return self.controller.address

    async def start(self) -> None:
        """Start in the role of the role file, or of broker.conf without one."""
        await self._start(self.control.load())
        assert self.controller is not None
        config = self.control.effective().broker
        listen = self._listen or [(config.bind_address, config.listen_port)]
        # The ports that were free at the first start are used again after a change.
        self._listen = [
            (host, parse_address(address)[1])
            for (host, _), address in zip(listen, self.controller.addresses, strict=False)
        ]

    async def _start(self, settings: Settings) -> None:
        controller = BrokerController(
            settings,
            clock=self._clock,
            disk=self._disk,
            listen=self._listen,
            role_control=self.control,
        )
        await controller.start()
        self.controller = controller

    async def close(self) -> None:
        """Stop in order; the error of a failed change is raised."""
        if self._change is not None:
            await asyncio.wait({self._change})
        if self.controller is not None:
            await self.controller.close()
        if self._failure is not None:
            raise self._failure

    def _begin_change(self) -> None:
        # Not now: the request that asked for the change is answered first.
        self._change = asyncio.get_running_loop().create_task(self._change_role())

    async def _change_role(self) -> None:
        assert self.controller is not None
        old = self.controller
        try:
            # Let the answer out: close() waits for requests in flight only.
            await asyncio.sleep(0)
            carried = [(group, list(group.channels.values())) for group in old.context.consumers]
            await old.close(unregister=False)
            self.controller = None
            await self._start(self.control.effective())
        except BaseException as error:
            log.critical("the role was not changed: %s; the broker stops", error)
            self._failure = error
            if self._on_failure is not None:
                self._on_failure()
            raise
        self._carry_over(carried)

    def _carry_over(self, carried: list[tuple[ConsumerGroup, list[ClientChannel]]]) -> None:
        """Enter the members of consumer groups until their next heartbeat."""
        assert self.controller is not None
        context = self.controller.context
        until_ms = context.now_ms() - context.config.channel_expired_timeout + CARRIED_MS
        for group, channels in carried:
            if context.consumers.get(group.name) is not None:
                continue  # its members were faster
            for channel in channels:
                channel.last_update_ms = min(channel.last_update_ms, until_ms)
                context.consumers.register(
                    group.name, channel, group.profile, group.subscriptions.values()
                )
