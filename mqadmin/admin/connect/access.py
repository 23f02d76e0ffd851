"""Credentials and TLS of a session; imports ssl, so it is loaded only when one of them is set."""

import ssl

from broker.errors import ConfigError
from broker.remoting.security.signing import Credentials


def account(access_key: str, secret_key: str) -> Credentials:
    """Return the credentials that sign each request of a command."""
    return Credentials(access_key=access_key, secret_key=secret_key)


def tls_context(
    *, ca: str | None = None, cert: str | None = None, key: str | None = None
) -> ssl.SSLContext:
    """Return a context that verifies the server against ``ca`` (PEM), else the system trust store.

    ``cert`` and ``key`` (PEM) are the client certificate; ``key`` None: it is in the same file.
    ConfigError when a file cannot be used, and for a key without a certificate.
    Host names are verified only with the system trust store: certificates of brokers seldom
    contain the address the client connects to, and a private ``ca`` limits the trusted servers.
    """
    if key is not None and cert is None:
        raise ConfigError(
            f"tls-key ({key}): no tls-cert is given",
            "give --tls-cert or set MQADMIN_TLS_CERT, or omit tls-key",
        )
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
