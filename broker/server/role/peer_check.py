"""PeerCheck: ask the other brokers of this broker's name for their epochs.

A master asks before each registration. Name servers keep the last registration of a broker name
and id, so without this check a master that was replaced while it was down would take the name back
with a log that lacks what its successor has stored.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ConnectError, RequestTimeoutError, RocketMQError
from broker.remoting.protocol.body.base import RESPONSE_LIMITS
from broker.remoting.protocol.body.namesrv.cluster import ClusterInfo
from broker.remoting.protocol.body.role import BrokerRoleInfo
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.server.configuration.config import name_servers

if TYPE_CHECKING:
    from broker.server.context import BrokerContext
    from broker.server.ha.slave_synchronize import Caller

log = logging.getLogger("broker.server")

TIMEOUT_MS: Final = 2_000


class Verdict(NamedTuple):
    """What the other brokers of this name report.

    ``epoch``: the highest one of a role, and ``address``, the broker that is its master.
    ``promised_epoch`` and ``promised_to``: the latest promise to another broker than this one.
    ``silent``: the address of another registered master that does not answer, empty without one.
    """

    epoch: int = 0
    address: str = ""
    promised_epoch: int = 0
    promised_to: str = ""
    silent: str = ""


class PeerCheck:
    """The question to name servers and peers; answers are not kept."""

    def __init__(self, context: "BrokerContext", client: "Caller") -> None:
        self._context = context
        self._client = client

    async def ask(self, *, must_answer: bool) -> Verdict:
        """Return the verdict; with ``must_answer`` a registered master that is silent counts."""
        peers: dict[str, int] = {}
        for found in await asyncio.gather(
            *(self._peers_at(address) for address in name_servers(self._context.config))
        ):
            peers.update(found)
        answers = await asyncio.gather(*(self._role_of(address) for address in peers))
        verdict = Verdict()
        for (address, broker_id), answer in zip(peers.items(), answers, strict=True):
            if answer is None:
                if must_answer and broker_id == 0:
                    verdict = verdict._replace(silent=address)
                continue
            if answer.epoch > verdict.epoch:
                master = address if answer.role != "SLAVE" else answer.promised_to or address
                verdict = verdict._replace(epoch=answer.epoch, address=master)
            to = answer.promised_to
            if answer.promised_epoch > verdict.promised_epoch and to != self._context.address:
                verdict = verdict._replace(promised_epoch=answer.promised_epoch, promised_to=to)
        return verdict

    async def _peers_at(self, name_server: str) -> dict[str, int]:
        """Return address → broker id of the other brokers of this name, empty if unknown."""
        try:
            answer = await self._client.call(
                name_server, request(RequestCode.GET_BROKER_CLUSTER_INFO), TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS:
                return {}
            table = ClusterInfo.from_bytes(answer.body_bytes(), RESPONSE_LIMITS).broker_addr_table
        except RocketMQError as error:
            log.debug("%s: brokers of this name not known: %s", name_server, error.message)
            return {}
        data = table.get(self._context.config.broker_name)
        if data is None:
            return {}
        own = self._context.address
        return {
            address: int(broker_id)
            for broker_id, address in data.broker_addrs.items()
            if address != own
        }

    async def _role_of(self, address: str) -> BrokerRoleInfo | None:
        """Return a peer's role; None if it does not answer. A Java broker has epoch 0."""
        try:
            answer = await self._client.call(
                address, request(RequestCode.GET_BROKER_ROLE), TIMEOUT_MS
            )
        except (ConnectError, RequestTimeoutError):
            return None
        except RocketMQError as error:
            log.debug("%s: role not known: %s", address, error.message)
            return None
        if answer.code != ResponseCode.SUCCESS:
            return BrokerRoleInfo()
        try:
            return BrokerRoleInfo.from_bytes(answer.body_bytes(), RESPONSE_LIMITS)
        except RocketMQError:
            return BrokerRoleInfo()
