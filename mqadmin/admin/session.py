"""The session: connections, deadline, name servers, targets, and the doors to the nouns."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from broker.client.caller import Caller
from broker.client.route_cache import RouteCache
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from mqadmin.admin.failure import refusal

if TYPE_CHECKING:
    from mqadmin.admin.broker import BrokerAdmin
    from mqadmin.admin.cluster import ClusterAdmin
    from mqadmin.admin.consumer import ConsumerAdmin
    from mqadmin.admin.dlq import DlqAdmin
    from mqadmin.admin.group import GroupAdmin
    from mqadmin.admin.message import MessageAdmin
    from mqadmin.admin.namesrv import NamesrvAdmin
    from mqadmin.admin.offset import OffsetAdmin
    from mqadmin.admin.result import Outcome, Plan
    from mqadmin.admin.topic import TopicAdmin
    from mqadmin.admin.topology import Topology

DEFAULT_TIMEOUT_MS = 10_000


class MQAdmin(Caller):
    """A session with one cluster: name servers, a total deadline, and one facade per noun.

    ``namesrv`` are addresses ``host:port``. ``timeout_ms`` bounds everything the session does
    from its creation on, except :meth:`MessageAdmin.tail`, which renews it with every message.
    ``address_map`` dials another address than the one the cluster advertises. ``signer`` signs
    requests, ``tls`` wraps connections, ``trace`` is told each request and answer.
    """

    timeout_ms: int

    def __init__(
        self,
        namesrv: Sequence[str],
        *,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        address_map: Mapping[str, str] | None = None,
        signer: Any = None,
        tls: Any = None,
        trace: Callable[..., None] | None = None,
        client: Any = None,
    ) -> None:
        """``client`` replaces the connections (tests); the other network options are its own."""
        if not namesrv:
            raise ClientError("no name server is named", "give one with --namesrv HOST:PORT")
        self.timeout_ms = timeout_ms
        self._network = {
            "address_map": dict(address_map or {}),
            "signer": signer,
            "tls": tls,
            "trace": trace,
        }
        super().__init__(namesrv, client or self._connect(total_ms=timeout_ms))
        self._given_client = client

    def _connect(self, *, total_ms: int | None) -> Any:
        from broker.remoting.blocking import BlockingClient

        return BlockingClient(timeout_ms=self.timeout_ms, total_ms=total_ms, **self._network)

    def without_deadline(self) -> "MQAdmin":
        """A second session to the same cluster whose calls are bounded one by one, not together.

        For readers that follow a topic as long as they are let.
        """
        session = MQAdmin.__new__(MQAdmin)
        session.timeout_ms = self.timeout_ms
        session._network = self._network
        session._given_client = self._given_client
        Caller.__init__(
            session, self.namesrv_addresses, self._given_client or self._connect(total_ms=None)
        )
        return session

    def renew(self) -> None:
        """Begin the deadline anew, with new connections: a person may have thought in between."""
        if self._given_client is None:
            self.client.close()
            self.client = self._connect(total_ms=self.timeout_ms)

    def refusal(self, address: str, code: int, answer: RemotingCommand) -> BrokerError:
        """The error for an answer that is not accepted, with the next step as its hint."""
        return refusal(address, code, answer.code, answer.remark)

    def __enter__(self) -> "MQAdmin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- places ---------------------------------------------------------------------------

    @cached_property
    def routes(self) -> RouteCache:
        """Routes of topics, each asked once per session."""
        return RouteCache(self)

    @cached_property
    def topology(self) -> "Topology":
        """The cluster table of the name server, asked once per session."""
        from mqadmin.admin.topology import Topology

        table = self.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO).value
        return Topology(table.cluster_addr_table, table.broker_addr_table)

    # --- changing -------------------------------------------------------------------------

    def apply(self, plan: "Plan") -> "Outcome":
        """Carry out a plan: check that nothing moved, send step by step, read back.

        The deadline begins anew, because a plan may have waited for somebody's yes.
        """
        from mqadmin.admin.change import apply_plan

        self.renew()
        return apply_plan(self, plan)

    # --- nouns ----------------------------------------------------------------------------

    @cached_property
    def topic(self) -> "TopicAdmin":
        """Topics: create, update, list, show, route, status, perm, delete."""
        from mqadmin.admin.topic import TopicAdmin

        return TopicAdmin(self)

    @cached_property
    def cluster(self) -> "ClusterAdmin":
        """Clusters and their brokers."""
        from mqadmin.admin.cluster import ClusterAdmin

        return ClusterAdmin(self)

    @cached_property
    def broker(self) -> "BrokerAdmin":
        """Single brokers: runtime status, configuration."""
        from mqadmin.admin.broker import BrokerAdmin

        return BrokerAdmin(self)

    @cached_property
    def group(self) -> "GroupAdmin":
        """Subscription groups."""
        from mqadmin.admin.group import GroupAdmin

        return GroupAdmin(self)

    @cached_property
    def message(self) -> "MessageAdmin":
        """Messages: query, send, tail, decode-id."""
        from mqadmin.admin.message import MessageAdmin

        return MessageAdmin(self)

    @cached_property
    def consumer(self) -> "ConsumerAdmin":
        """Consumers: list, lag, connections."""
        from mqadmin.admin.consumer import ConsumerAdmin

        return ConsumerAdmin(self)

    @cached_property
    def offset(self) -> "OffsetAdmin":
        """Consumer offsets: show, reset, export, import."""
        from mqadmin.admin.offset import OffsetAdmin

        return OffsetAdmin(self)

    @cached_property
    def dlq(self) -> "DlqAdmin":
        """Dead letters."""
        from mqadmin.admin.dlq import DlqAdmin

        return DlqAdmin(self)

    @cached_property
    def namesrv(self) -> "NamesrvAdmin":
        """Name servers: configuration, KV, write permission."""
        from mqadmin.admin.namesrv import NamesrvAdmin

        return NamesrvAdmin(self)
