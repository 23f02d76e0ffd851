"""TLS keys of a configuration file with which a server of this project refuses to start.

They are read from elsewhere by Java, or are other names of settings that are served.

**Source:** RocketMQ TlsSystemConfig, NettyClientConfig#useTLS.
"""

from typing import Final

from broker.common.config.settings import unserved

UNSERVED_TLS: Final = (
    unserved("useTLS", ["false"], "not read, connections to others use TLS with tls.enable=true"),
    unserved("tls.config.file", [""], "not read, its keys belong into this file"),
)
