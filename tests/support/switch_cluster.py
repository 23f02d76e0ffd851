"""A name server, a master and slaves in one event loop, whose roles can change."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from broker.namesrv.config import NamesrvConfig
from broker.namesrv.server import NameServer
from broker.namesrv.settings import LiveSettings
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.body.role import BrokerRoleInfo, RoleProperties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.configuration.settings import Settings
from broker.server.role.switchable import SwitchableBroker
from tests.support.ports import free_port
from tests.support.replicas import until

SMALL = {
    "mappedFileSizeCommitLog": "262144",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "listenPort": "0",
}
SEND = dict.fromkeys("abcdefghijk", "0") | {
    "a": "P",
    "b": "Orders",
    "c": "TBW102",
    "d": "4",
    "g": "1700000000000",
    "i": "",
    "k": "false",
}


class SwitchCluster:
    """``brokers[0]`` starts as the master, the others as its slaves 1, 2, …"""

    def __init__(
        self, folder: Path, slaves: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._properties = {**SMALL, **(properties or {})}
        self._slaves = slaves
        self.client = RemotingClient()
        self.brokers: list[SwitchableBroker] = []
        config = NamesrvConfig(
            bind_address="127.0.0.1",
            listen_port=0,
            kv_config_path=str(folder / "kvConfig.json"),
            config_store_path=str(folder / "namesrv.properties"),
        )
        self.namesrv = NameServer(settings=LiveSettings(config))

    async def __aenter__(self) -> Self:
        await self.namesrv.start()
        for number in range(self._slaves + 1):
            await self.start(number)
        for number in range(1, self._slaves + 1):
            await self.until_following(number)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers:
            await broker.close()
        await self.client.close()
        await self.namesrv.close()

    async def start(
        self, number: int, port: int = 0, more: Mapping[str, str] | None = None
    ) -> None:
        """Start a broker, or start it again on its store; ``more`` settings of this one."""
        role = {"brokerRole": "SLAVE", "brokerId": str(number)} if number else {}
        settings = Settings(
            {
                **self._properties,
                **role,
                **(more or {}),
                "storePathRootDir": str(self._folder / f"store-{number}"),
                "namesrvAddr": self.namesrv.addresses[0],
            }
        )
        # not 0: the broker listens again on its ports after a switch
        broker = SwitchableBroker(settings, [("127.0.0.1", port or free_port())])
        if number < len(self.brokers):
            self.brokers[number] = broker
        else:
            self.brokers.append(broker)
        await broker.start()

    def info(self, number: int) -> BrokerRoleInfo:
        """The role of a broker, without a request."""
        return self.brokers[number].control.info()

    async def until_following(self, number: int) -> None:
        await until(
            lambda: self.brokers[number].controller is not None and self.info(number).connected
        )

    async def call(
        self, number: int, code: int, ext: dict[str, str], body: bytes = b""
    ) -> RemotingCommand:
        return await self.client.call(
            self.brokers[number].address, request(code, dict(ext), body), 10_000
        )

    async def send(self, number: int, body: bytes = b"x") -> RemotingCommand:
        return await self.call(number, RequestCode.SEND_MESSAGE_V2, SEND, body)

    async def step(
        self, number: int, action: str, properties: dict[str, str] | None = None, **fields: object
    ) -> RemotingCommand:
        """One CHANGE_BROKER_ROLE request; fields in camelCase."""
        ext = {"action": action, **{name: str(value) for name, value in fields.items()}}
        body = RoleProperties(properties=properties).to_bytes() if properties else b""
        return await self.call(number, RequestCode.CHANGE_BROKER_ROLE, ext, body)

    async def switch(self, epoch: int = 1, properties: dict[str, str] | None = None) -> None:
        """Make broker 1 the master and broker 0 its slave."""
        target = self.brokers[1].address
        for number in range(len(self.brokers)):
            answer = await self.step(number, "fence", epoch=epoch, target=target)
            assert answer.code == 0, answer.remark
        end = self.info(0).max_offset
        await until(lambda: self.info(1).max_offset >= end)
        answer = await self.step(1, "promote", properties, epoch=epoch, expectedOffset=end)
        assert answer.code == 0, answer.remark
        await self.until_serving(1)
        answer = await self.step(0, "demote", epoch=epoch, brokerId=1)
        assert answer.code == 0, answer.remark

    async def until_serving(self, number: int) -> None:
        """Until a broker is a master that accepts writes."""
        broker = self.brokers[number]
        await until(
            lambda: (
                broker.controller is not None
                and not broker.control.changing
                and not broker.controller.context.config.is_slave
                and broker.controller.store.writable
            )
        )
