"""Credentials, TLS and name server discovery of a session."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from broker.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    import ssl

#: A discovery response is one line of addresses; a larger response is not an address list.
DISCOVERY_LIMIT_BYTES = 64 * 1024


def signer(access_key: str, secret_key: str) -> Callable[[Any], None]:
    """Return the function that signs each request of a session with ``access_key``."""
    from broker.remoting.signing import Credentials

    return Credentials(access_key=access_key, secret_key=secret_key).sign


def tls_context(
    *, ca: str | None = None, cert: str | None = None, key: str | None = None
) -> "ssl.SSLContext":
    """Return a context that verifies the server against ``ca`` (PEM), else the system trust store.

    ``cert`` and ``key`` (PEM) are the client certificate. ConfigError when a file cannot be used.
    Host names are verified only with the system trust store: certificates of brokers seldom
    contain the address the client connects to, and a private ``ca`` already limits who is trusted.
    """
    import ssl

    try:
        context = ssl.create_default_context(cafile=ca)
        if ca is not None:
            context.check_hostname = False
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(name for name in (ca, cert, key) if name)
        raise ConfigError(f"TLS files ({files}): {error}", "PEM files are expected") from error
    return context


def discover_namesrv(url: str, *, timeout_ms: int) -> list[str]:
    """Ask an HTTP server for the name servers: one line ``host:port;host:port``.

    ConnectError when it does not respond, or the response is not such a line.

    **Source:** RocketMQ ``DefaultTopAddressing#fetchNSAddr``.
    """
    import httpx

    place = urlsplit(url).netloc
    try:
        with httpx.Client(timeout=timeout_ms / 1000, follow_redirects=True) as client:
            answer = client.get(url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectError(
            f"name server discovery ({url}): {error}", "is the address right?", address=place
        ) from error
    text = answer.text.strip()[:DISCOVERY_LIMIT_BYTES]
    found = [part.strip() for part in text.splitlines()[0].split(";")] if text else []
    found = [part for part in found if part]
    if answer.status_code != 200 or not found or any(":" not in part for part in found):
        raise ConnectError(
            f"name server discovery ({url}): status {answer.status_code}, no list of addresses",
            "the answer should be one line like 10.0.0.1:9876;10.0.0.2:9876",
            address=place,
        )
    return found
