"""TLS of a daemon: the contexts of accepted and of opened connections.

A server accepts TLS and plain connections at one port (see :mod:`.tls_listener`). It needs a
certificate: unlike Java's test mode, none is generated, and a certificate of a client that nothing
verifies is not accepted as an identity.

**Source:** RocketMQ TlsHelper#buildSslContext, FileWatchService.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker.errors import ConfigError
from broker.remoting.security.tls_settings import TlsConfig

log = logging.getLogger("broker.remoting")

VERIFY_MODES: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}
WATCH_S: Final = 1.0
"""Shortest time between two looks at the files of a context."""

State = tuple[tuple[int, int, int], ...]


def client_context(config: TlsConfig) -> ssl.SSLContext | None:
    """Return the context of opened connections, None without TLS; ConfigError for its files.

    Host names are not compared: name servers and brokers are reached by IP address.
    """
    if not config.tls_enable:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    trust = config.tls_client_trust_cert_path
    if not config.tls_client_auth_server:
        context.verify_mode = ssl.CERT_NONE
    elif trust:
        _load("tls.client.trustCertPath", trust, lambda: context.load_verify_locations(trust))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if config.tls_client_cert_path:
        _load_chain(
            context,
            "client",
            config.tls_client_cert_path,
            config.tls_client_key_path,
            config.tls_client_key_password,
        )
    return context


class ServerTls:
    """The context of accepted connections; follows changes of its files while the server runs."""

    def __init__(self, config: TlsConfig) -> None:
        """ConfigError if a file cannot be used."""
        self.enforcing = config.tls_server_mode == "enforcing"
        self._config = config
        self._seen_s = time.monotonic()
        self._state = self._read_state()
        self._context = _server_context(config)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection.

        Changed files are loaded, at most once per second. Files that cannot be used are logged,
        and the certificate from before remains in use.
        """
        now_s = time.monotonic()
        if now_s - self._seen_s >= WATCH_S:
            self._seen_s = now_s
            state = self._read_state()
            if state != self._state:
                self._state = state
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = _server_context(self._config)
        except ConfigError as error:
            log.error("%s: the certificate from before remains in use", error.message)
        else:
            log.info("%s: loaded again", self._config.tls_server_cert_path)

    def _read_state(self) -> State:
        config = self._config
        found = []
        for path in (
            config.tls_server_cert_path,
            config.tls_server_key_path,
            config.tls_server_trust_cert_path,
        ):
            try:
                status = os.stat(path)
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)


def check_files(config: TlsConfig) -> None:
    """ConfigError if a file of the settings cannot be used."""
    server_tls(config)
    client_context(config)


def server_tls(config: TlsConfig) -> ServerTls | None:
    """Return the TLS of a server, None if it has none; ConfigError for its files."""
    if config.tls_server_mode == "disabled" or not config.tls_server_cert_path:
        return None
    return ServerTls(config)


def _server_context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(
        context,
        "server",
        config.tls_server_cert_path,
        config.tls_server_key_path,
        config.tls_server_key_password,
    )
    if config.tls_server_auth_client:
        trust = config.tls_server_trust_cert_path
        _load("tls.server.trustCertPath", trust, lambda: context.load_verify_locations(trust))
        context.verify_mode = VERIFY_MODES[config.tls_server_need_client_auth]
    return context


def _load_chain(context: ssl.SSLContext, side: str, cert: str, key: str, password: str) -> None:
    for name, path in (("certPath", cert), ("keyPath", key)):
        _load(f"tls.{side}.{name}", path, Path(path).read_bytes)
    # Without a callable OpenSSL would ask for the password at the terminal.
    _load(
        f"tls.{side}.certPath, tls.{side}.keyPath",
        f"{cert}, {key}",
        lambda: context.load_cert_chain(cert, key, lambda: password),
    )


def _load(keys: str, paths: str, load: Callable[[], object]) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # OSError: ssl.SSLError, too
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{keys}: {paths}: {reason}", "readable PEM files are expected") from None
