"""The session: connections, deadline, name servers, targets, and the doors to the nouns."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mqadmin.admin.result import Outcome, Plan

if TYPE_CHECKING:
    from mqadmin.admin.broker import BrokerAdmin
    from mqadmin.admin.cluster import ClusterAdmin
    from mqadmin.admin.consumer import ConsumerAdmin
    from mqadmin.admin.dlq import DlqAdmin
    from mqadmin.admin.group import GroupAdmin
    from mqadmin.admin.message import MessageAdmin
    from mqadmin.admin.namesrv import NamesrvAdmin
    from mqadmin.admin.offset import OffsetAdmin
    from mqadmin.admin.topic import TopicAdmin


class MQAdmin:
    """A session with one cluster: name servers, a total deadline, and one facade per noun."""

    def __init__(
        self,
        namesrv: Sequence[str],
        *,
        timeout_ms: int = 10_000,
        address_map: Mapping[str, str] | None = None,
        signer: Any = None,
        tls: Any = None,
        trace: Callable[..., None] | None = None,
    ) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close every connection; the session cannot be used afterwards."""
        raise NotImplementedError

    def __enter__(self) -> "MQAdmin":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def apply(self, plan: Plan) -> Outcome:
        """Carry out a plan, read back, and report target by target."""
        raise NotImplementedError

    @property
    def topic(self) -> "TopicAdmin":
        """Topics: create, update, list, show, route, status, perm, delete."""
        raise NotImplementedError

    @property
    def cluster(self) -> "ClusterAdmin":
        """Clusters and their brokers."""
        raise NotImplementedError

    @property
    def broker(self) -> "BrokerAdmin":
        """Single brokers: runtime status, configuration."""
        raise NotImplementedError

    @property
    def group(self) -> "GroupAdmin":
        """Subscription groups."""
        raise NotImplementedError

    @property
    def message(self) -> "MessageAdmin":
        """Messages: query, send, tail, decode-id."""
        raise NotImplementedError

    @property
    def consumer(self) -> "ConsumerAdmin":
        """Consumers: list, lag, connections."""
        raise NotImplementedError

    @property
    def offset(self) -> "OffsetAdmin":
        """Consumer offsets: show, reset, export, import."""
        raise NotImplementedError

    @property
    def dlq(self) -> "DlqAdmin":
        """Dead letters."""
        raise NotImplementedError

    @property
    def namesrv(self) -> "NamesrvAdmin":
        """Name servers: configuration, KV, write permission."""
        raise NotImplementedError
