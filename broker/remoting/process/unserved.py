"""TLS keys of a configuration file with which a server of this project refuses to start.

TLS is not implemented: a file that requires encryption or client certificates would get neither.
``tls.server.mode=permissive`` is accepted because it allows clients to connect without TLS.

**Source:** RocketMQ TlsSystemConfig, NettyClientConfig#useTLS.
"""

from typing import Final

from broker.common.config.settings import unserved

_PLAIN: Final = "TLS is not served, connections would not be encrypted"
_ANY_PEER: Final = "TLS is not served, peers would not be authenticated"

UNSERVED_TLS: Final = (
    unserved("useTLS", ["false"], _PLAIN),
    unserved("tls.enable", ["false"], _PLAIN),
    unserved("tls.server.mode", ["disabled", "permissive"], _PLAIN),
    unserved("tls.server.need.client.auth", ["none", "optional"], _ANY_PEER),
    unserved("tls.server.authClient", ["false"], _ANY_PEER),
    unserved("tls.client.authServer", ["false"], _ANY_PEER),
)
