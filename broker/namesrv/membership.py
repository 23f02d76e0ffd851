"""The requests of MEMBER level that a name server admits from unlisted hosts.

Brokers on other hosts must be able to register without configuration, but no other host may
register or unregister them. A host can prove only its address, so its requests are admitted for
brokers at that address only:

======================================  ==================================================
request                                 admitted when
======================================  ==================================================
REGISTER_BROKER (103)                   ``brokerAddr`` is the peer's, no live broker of
                                        another host holds the broker id, and the host has
                                        fewer than MAX_BROKERS_PER_HOST
UNREGISTER_BROKER (104),                ``brokerAddr`` is the peer's
BROKER_HEARTBEAT (904),
QUERY_DATA_VERSION (322)
REGISTER_TOPIC_IN_NAMESRV (217)         every broker it names has an address of the peer's
======================================  ==================================================

If ``clusterMembers`` is set, only listed hosts are admitted. A broker whose registered address
differs from its connection's address (NAT, a DNS name as brokerIP1), or which takes over the id of
an unresponsive master (controller mode), must be listed there.

**Source:** none: RocketMQ's name server accepts every registration.
"""

from broker.common.address import encode_ip, parse_address
from broker.errors import LocalProtocolError
from broker.namesrv.route import RouteInfoManager
from broker.remoting.protocol.body.namesrv.route import TopicRouteData
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.namesrv.route import RegisterBrokerRequestHeader
from broker.remoting.server import Connection

MAX_BROKERS_PER_HOST = 64
"""Broker addresses per unlisted host: each registration may fill a frame with topics."""


def is_address_of(broker_addr: str, peer_ip: bytes) -> bool:
    """Whether ``broker_addr`` (ip:port) is at the IP address ``peer_ip`` (4 or 16 bytes)."""
    try:
        return encode_ip(parse_address(broker_addr)[0]) == peer_ip
    except LocalProtocolError:
        return False


class MembershipCheck:
    """Applies the rules above to the tables of one name server.

    ``listed_only``: clusterMembers is set.
    """

    def __init__(self, routes: RouteInfoManager, *, listed_only: bool) -> None:
        self.routes = routes
        self.listed_only = listed_only

    def __call__(self, connection: Connection, command: RemotingCommand) -> str | None:
        """Return why a request of an unlisted host is refused, None if it is admitted."""
        if self.listed_only:
            return "this host is not listed"
        peer_ip = connection.remote_host[:-4]
        if command.code == RequestCode.REGISTER_TOPIC_IN_NAMESRV:
            return self._check_topic(command, peer_ip)
        broker_addr = command.ext_fields.get("brokerAddr", "")
        if not is_address_of(broker_addr, peer_ip):
            return f"brokerAddr {broker_addr!r} is not an address of this host"
        if command.code == RequestCode.REGISTER_BROKER:
            return self._check_holder(command, peer_ip)
        return None

    def _check_holder(self, command: RemotingCommand, peer_ip: bytes) -> str | None:
        header = decode_header_fields(RegisterBrokerRequestHeader, command.ext_fields)
        if (
            header.broker_id < 0
        ):  # it would be the lowest id, whose registration defines the group's topics
            return f"broker id {header.broker_id} is negative"
        own = [address for _, address in self.routes.live if is_address_of(address, peer_ip)]
        if len(own) >= MAX_BROKERS_PER_HOST and header.broker_addr not in own:
            return f"{len(own)} brokers of this host are registered, the limit"
        holder = self.routes.live_holder(header.broker_name, header.broker_id)
        if holder is None or is_address_of(holder, peer_ip):
            return None
        return f"broker id {header.broker_id} of {header.broker_name} is {holder}, which is alive"

    def _check_topic(self, command: RemotingCommand, peer_ip: bytes) -> str | None:
        for queues in TopicRouteData.from_bytes(command.body_bytes()).queue_datas:
            members = self.routes.members(queues.broker_name).values()
            if not any(is_address_of(address, peer_ip) for address in members):
                return f"broker {queues.broker_name} has no address of this host"
        return None
