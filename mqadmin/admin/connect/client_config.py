"""The settings of the asyncio client for a command; imports the client."""

from broker.client import ClientConfig
from broker.remoting.limits import CONNECT_TIMEOUT_MS
from mqadmin.admin.session import ClusterAccess


def client_config(access: ClusterAccess) -> ClientConfig:
    """Return the client's settings: the same cluster, account, TLS and timeout as a session has."""
    url = access.namesrv_url
    return ClientConfig(
        namesrv=() if url else access.namesrv,
        namesrv_url=url,
        address_map=access.address_map,
        credentials=access.credentials,
        tls=access.tls,
        mq_client_api_timeout_ms=access.timeout_ms,
        connect_timeout_ms=min(access.timeout_ms, CONNECT_TIMEOUT_MS),
    )
