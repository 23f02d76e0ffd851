"""A name server with supportActingMaster and whole brokers of one name, in one event loop."""

import json
from pathlib import Path

from broker.namesrv.config import NamesrvConfig
from broker.namesrv.server import NameServer
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.controller import BrokerController
from broker.server.standalone import embedded_settings

ACTING = {
    "mappedFileSizeCommitLog": "262144",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "enableSlaveActingMaster": "true",
    "brokerName": "pair",
}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


class Group:
    """A name server with supportActingMaster, and brokers of one name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.namesrv = NameServer(NamesrvConfig(support_acting_master=True))
        self.client = RemotingClient()

    async def broker(self, name: str, **more: str) -> BrokerController:
        settings = embedded_settings(
            str(self.root / name),
            {**ACTING, "namesrvAddr": self.namesrv.addresses[0], **more},
        )
        broker = BrokerController(settings, listen=[("127.0.0.1", 0)])
        await broker.start()
        return broker

    async def route(self, topic: str) -> dict:
        answer = await self.client.call(
            self.namesrv.addresses[0],
            request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}),
            10_000,
        )
        return json.loads(answer.body_bytes())
