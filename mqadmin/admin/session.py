"""The session: connections, deadline, name servers and the brokers registered there.

The modules of the nouns take a session as an argument; it knows none of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RemotingError,
    RequestTimeoutError,
    RocketMQError,
)
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.caller import Caller
from broker.remoting.rpc.route_cache import RouteCache
from mqadmin.admin.failure import refusal
from mqadmin.admin.result import Scope
from mqadmin.admin.topology import Topology

if TYPE_CHECKING:
    import ssl

    from broker.remoting.security.signing import Credentials

DEFAULT_TIMEOUT_MS = 10_000

#: The share of the remaining time that one phase of a command may use, so that later phases have
#: time left. The number of phases is not known beforehand: routes, offsets, groups, pages.
PHASE_SHARE = 0.5

#: The minimum time of a phase while that much is left; less would fail healthy peers that are
#: reached over a slow network.
MIN_PHASE_MS = 500


class ClusterAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a command reaches its cluster, the same for both transports.

    A session uses blocking sockets; ``msg produce``, ``msg consume`` and ``bench`` also use the
    asyncio client (``connect.client_config``). ``namesrv`` addresses, or one URL of a list of them.
    ``timeout_ms`` of the command. ``address_map`` advertised address to reachable address;
    ``credentials`` sign each request; ``tls`` wraps each connection.
    """

    namesrv: tuple[str, ...]
    timeout_ms: int
    address_map: Mapping[str, str] = {}
    credentials: "Credentials | None" = None
    tls: "ssl.SSLContext | None" = None

    @property
    def namesrv_url(self) -> str:
        """The URL of the list of name servers, empty if the addresses are given."""
        first = self.namesrv[0]
        return first if first.startswith(("http://", "https://")) else ""

    def session(self, trace: Callable[..., None] | None = None) -> "AdminSession":
        """Open a session; its name servers must be addresses."""
        return AdminSession(
            self.namesrv,
            timeout_ms=self.timeout_ms,
            address_map=self.address_map,
            signer=None if self.credentials is None else self.credentials.sign,
            tls=self.tls,
            trace=trace,
        )


class AdminSession(Caller):
    """A session with one cluster: name servers and a total deadline.

    ``namesrv`` are addresses ``host:port``. ``timeout_ms`` bounds the whole session from its
    creation on, except following a topic and sending a replay. It is divided: each phase gets a
    share of the time left, and an address that did not respond once is not called again, so that
    a broker that hangs costs one phase and leaves time for the other brokers. ``address_map``
    replaces advertised addresses by others to connect to. ``signer`` signs requests, ``tls`` wraps
    connections, ``trace`` is called with each request and response.
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
        """``client`` replaces the connections (tests); the other network options are unused."""
        if not namesrv:
            raise ClientError("no name server is named", "give one with --namesrv HOST:PORT")
        self.timeout_ms = timeout_ms
        self.network = {
            "address_map": dict(address_map or {}),
            "signer": signer,
            "tls": tls,
            "trace": trace,
        }
        super().__init__(namesrv, client or self._connect(total_ms=timeout_ms))
        self._given_client = client
        self._silent: dict[str, RemotingError] = {}
        self._responded: set[str] = set()

    def _connect(self, *, total_ms: int | None) -> Any:
        return BlockingClient(timeout_ms=self.timeout_ms, total_ms=total_ms, **self.network)

    def without_deadline(self, call_ms: int | None = None) -> "AdminSession":
        """Return a second session to the same cluster, with a deadline per call instead of a total.

        ``call_ms`` bounds each call, ``timeout_ms`` if None. For following a topic and for
        replays, whose duration is not known beforehand.
        """
        session = AdminSession.__new__(AdminSession)
        session.timeout_ms = min(self.timeout_ms, call_ms or self.timeout_ms)
        session.network = self.network
        session._given_client = self._given_client
        session._silent = {}
        session._responded = self._responded
        Caller.__init__(
            session, self.namesrv_addresses, self._given_client or session._connect(total_ms=None)
        )
        return session

    def renew(self) -> None:
        """Restart the deadline, with new connections: the user may have paused before."""
        self._silent.clear()
        if self._given_client is None:
            self.client.close()
            self.client = self._connect(total_ms=self.timeout_ms)

    def forget(self) -> None:
        """Query topology and routes again at the next use: for commands that run on."""
        self.__dict__.pop("topology", None)
        self.__dict__.pop("routes", None)

    # --- the deadline ---------------------------------------------------------------------

    def phase_ms(self) -> int | None:
        """Return the time limit of the next request or group of requests; None: no deadline.

        RequestTimeoutError when the deadline has passed; it names the peers that did not respond.
        """
        left_ms: float | None = getattr(self.client, "remaining_ms", None)
        if left_ms is None:
            return None
        if left_ms < 1:
            silent = "".join(f"; {error.message}" for error in self._silent.values())
            raise RequestTimeoutError(
                f"the deadline of {self.timeout_ms} ms has passed{silent}",
                "give the command more time with --timeout",
            )
        return max(1, int(max(left_ms * PHASE_SHARE, min(left_ms, MIN_PHASE_MS))))

    def _ask(
        self, address: str, command: RemotingCommand, timeout_ms: int | None = None
    ) -> RemotingCommand:
        if address in self._silent:
            raise self._silent[address]
        phase_ms = self.phase_ms()
        limits = [limit for limit in (timeout_ms, phase_ms) if limit is not None]
        try:
            answer = super()._ask(address, command, min(limits, default=None))
        except RemotingError as error:
            self._remember(address, error)
            raise
        self._responded.add(address)
        return answer

    def _ask_all(
        self, requests: Sequence[tuple[str, RemotingCommand]]
    ) -> list[RemotingCommand | RocketMQError]:
        """Call every address that responded so far, all in one share of the deadline."""
        answers: list[RemotingCommand | RocketMQError | None]
        answers = [self._silent.get(address) for address, _ in requests]
        open_places = [place for place, answer in enumerate(answers) if answer is None]
        if open_places:
            try:
                found = self.client.call_all(
                    [requests[place] for place in open_places], self.phase_ms()
                )
            except RequestTimeoutError as error:
                found = [error] * len(open_places)
            for place, answer in zip(open_places, found, strict=True):
                answers[place] = answer
                if isinstance(answer, RemotingError):
                    self._remember(requests[place][0], answer)
                elif not isinstance(answer, RocketMQError):
                    self._responded.add(requests[place][0])
        return [answer for answer in answers if answer is not None]

    def _remember(self, address: str, error: RemotingError) -> None:
        """Store why a peer did not respond. Without a deadline every peer is called every time."""
        bounded = getattr(self.client, "remaining_ms", None) is not None
        if bounded and isinstance(error, (ConnectError, RequestTimeoutError)):
            self._silent.setdefault(address, error)

    def brokers_responded(self) -> set[str]:
        """Return the addresses that have responded to a request, name servers excluded."""
        return self._responded.difference(self.namesrv_addresses)

    def scope(self, addresses: Iterable[str]) -> Scope:
        """Return the scope of a change: name servers, clusters and names of broker addresses."""
        wanted = set(addresses)
        targets = [target for target in self.topology.targets if target.address in wanted]
        labels = {target.address: target.label for target in targets}
        return Scope(
            namesrv=self.namesrv_addresses,
            clusters=sorted({target.cluster_name for target in targets if target.cluster_name}),
            brokers={address: labels.get(address, address) for address in sorted(wanted)},
        )

    def refusal(self, address: str, code: int, answer: RemotingCommand) -> BrokerError:
        """Build the error for a response code that is not accepted, with the next step as hint."""
        return refusal(address, code, answer.code, answer.remark)

    def __enter__(self) -> Self:
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
        """Routes of topics, each queried once per session."""
        return RouteCache(self, hint="mqadmin topic list lists the topics")

    @cached_property
    def topology(self) -> Topology:
        """The cluster table of the name server, queried once per session."""
        table = self.ask_namesrv(RequestCode.GET_BROKER_CLUSTER_INFO).value
        return Topology(table.cluster_addr_table, table.broker_addr_table)
