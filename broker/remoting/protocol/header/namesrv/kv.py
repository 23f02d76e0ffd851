"""The name server's KV configuration."""

from broker.remoting.protocol.header.fields import RequestHeader, ResponseHeader


class PutKVConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """PUT_KV_CONFIG (100).

    **Source:** RocketMQ ``PutKVConfigRequestHeader``.
    """

    namespace: str
    key: str
    value: str


class KVConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_KV_CONFIG (101), DELETE_KV_CONFIG (102).

    **Source:** RocketMQ ``GetKVConfigRequestHeader``, ``DeleteKVConfigRequestHeader``.
    """

    namespace: str
    key: str


class GetKVConfigResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 101.

    **Source:** RocketMQ ``GetKVConfigResponseHeader``.
    """

    value: str | None = None


class GetKVListByNamespaceRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_KVLIST_BY_NAMESPACE (219).

    **Source:** RocketMQ ``GetKVListByNamespaceRequestHeader``.
    """

    namespace: str
