"""TLS of the HA connection between brokers of this project; off unless all three files are set.

Both sides present a certificate and verify that of the other one against ``haTlsTrustCertPath``.
Host names are not compared: brokers reach each other by IP address, and the trusted certificates
are those of the brokers. Java's HA connection has no TLS: with it, only brokers of this project
can be master and slave.
"""

import socket
import ssl
from typing import Final

from broker.errors import ConfigError
from broker.server.ha.config import SETTINGS, HaConfig

HANDSHAKE_S: Final = 5.0
_FIELDS: Final = ("ha_tls_cert_path", "ha_tls_key_path", "ha_tls_trust_cert_path")


def make_context(config: HaConfig, *, server: bool) -> ssl.SSLContext | None:
    """Return the context of the master's (``server``) or slave's side, None without TLS.

    ConfigError if some of the files are not set or cannot be used.
    """
    paths = [getattr(config, field) for field in _FIELDS]
    if not any(paths):
        return None
    for field, path in zip(_FIELDS, paths, strict=True):
        if not path:
            raise ConfigError(
                f"{SETTINGS[field].key}: missing, TLS of the HA connection needs all three files",
                "set " + ", ".join(SETTINGS[name].key for name in _FIELDS),
            )
    cert, key, trust = paths
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(cert, key)
        context.load_verify_locations(trust)
    except OSError as error:  # ssl.SSLError, too
        raise ConfigError(
            f"TLS of the HA connection: {cert}, {key}, {trust}: {error.strerror or error}"
        ) from None
    return context


class TlsSocket:
    """The part of a non-blocking socket that HAConnection uses, over TLS."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        """Do the handshake; OSError if it fails or takes longer than :data:`HANDSHAKE_S`."""
        sock.settimeout(HANDSHAKE_S)
        self._sock = context.wrap_socket(sock, server_side=True)

    def setblocking(self, flag: bool) -> None:
        """As of a socket."""
        self._sock.setblocking(flag)

    def fileno(self) -> int:
        """As of a socket."""
        return self._sock.fileno()

    def recv(self, size: int) -> bytes:
        """As of a socket; BlockingIOError until a whole TLS record is there."""
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def sendmsg(self, parts: list[memoryview]) -> int:
        """Send a part of the first part; the header of a transfer is a TLS record of 12 bytes."""
        try:
            return self._sock.send(parts[0])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def shutdown(self, how: int) -> None:
        """As of a socket."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """As of a socket."""
        self._sock.close()
