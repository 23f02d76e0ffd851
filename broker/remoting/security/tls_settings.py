"""TLS settings of a daemon, and the contradictions between them.

**Source:** RocketMQ TlsSystemConfig.
"""

from typing import Final

import msgspec

from broker.common.config.settings import Setting
from broker.errors import ConfigError

MODES: Final = ("disabled", "permissive", "enforcing")
CLIENT_AUTH: Final = ("none", "optional", "require")


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS settings of a daemon; ``TLS_SETTINGS`` documents each field."""

    tls_server_mode: str = "permissive"
    tls_server_cert_path: str = ""
    tls_server_key_path: str = ""
    tls_server_key_password: str = ""
    tls_server_need_client_auth: str = "none"
    tls_server_auth_client: bool = False
    tls_server_trust_cert_path: str = ""
    tls_enable: bool = False
    tls_client_cert_path: str = ""
    tls_client_key_path: str = ""
    tls_client_key_password: str = ""
    tls_client_auth_server: bool = True
    tls_client_trust_cert_path: str = ""


TLS_SETTINGS: Final[dict[str, Setting]] = {
    "tls_server_mode": Setting(
        "tls.server.mode",
        "",
        "disabled: no TLS; permissive: TLS and plain connections, TLS once tls.server.certPath is"
        " set; enforcing: TLS only",
    ),
    "tls_server_cert_path": Setting(
        "tls.server.certPath", "", "certificate chain of this server (PEM)"
    ),
    "tls_server_key_path": Setting("tls.server.keyPath", "", "its private key (PEM)"),
    "tls_server_key_password": Setting(
        "tls.server.keyPassword", "", "password of that key, if it is encrypted"
    ),
    "tls_server_need_client_auth": Setting(
        "tls.server.need.client.auth", "", "certificates of clients: none, optional or require"
    ),
    "tls_server_auth_client": Setting(
        "tls.server.authClient", "", "verify the certificates of clients"
    ),
    "tls_server_trust_cert_path": Setting(
        "tls.server.trustCertPath", "", "certificates that verify those of clients (PEM)"
    ),
    "tls_enable": Setting(
        "tls.enable", "", "connections to name servers and other brokers use TLS"
    ),
    "tls_client_cert_path": Setting(
        "tls.client.certPath", "", "certificate chain for these connections (PEM); empty: none"
    ),
    "tls_client_key_path": Setting("tls.client.keyPath", "", "its private key (PEM)"),
    "tls_client_key_password": Setting(
        "tls.client.keyPassword", "", "password of that key, if it is encrypted"
    ),
    "tls_client_auth_server": Setting(
        "tls.client.authServer", "", "verify the certificates of name servers and other brokers"
    ),
    "tls_client_trust_cert_path": Setting(
        "tls.client.trustCertPath",
        "",
        "certificates that verify those (PEM); empty: the trust store of the system",
    ),
}


def check_tls(config: TlsConfig) -> None:
    """ConfigError naming the settings that contradict each other; no file is read."""
    mode, auth = config.tls_server_mode, config.tls_server_need_client_auth
    if mode not in MODES:
        raise ConfigError(f"tls.server.mode={mode}: unknown mode", f"one of {', '.join(MODES)}")
    if auth not in CLIENT_AUTH:
        raise ConfigError(
            f"tls.server.need.client.auth={auth}: unknown value", f"one of {', '.join(CLIENT_AUTH)}"
        )
    for side, cert, key in (
        ("server", config.tls_server_cert_path, config.tls_server_key_path),
        ("client", config.tls_client_cert_path, config.tls_client_key_path),
    ):
        if bool(cert) != bool(key):
            raise ConfigError(
                f"tls.{side}.certPath and tls.{side}.keyPath: one of them is empty", "set both"
            )
    if mode == "enforcing" and not config.tls_server_cert_path:
        raise ConfigError(
            "tls.server.mode=enforcing: no certificate",
            "set tls.server.certPath and tls.server.keyPath, or tls.server.mode=permissive",
        )
    verifies = config.tls_server_auth_client
    if auth == "require" and not verifies:
        raise ConfigError(
            "tls.server.need.client.auth=require: no certificate of a client would be verified",
            "set tls.server.authClient=true and tls.server.trustCertPath, or"
            " tls.server.need.client.auth=none",
        )
    if verifies and not config.tls_server_trust_cert_path:
        raise ConfigError(
            "tls.server.authClient=true: nothing to verify with",
            "set tls.server.trustCertPath, or tls.server.authClient=false",
        )
