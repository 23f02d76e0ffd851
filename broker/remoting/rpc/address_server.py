"""Reading the list of name servers over HTTP; imports httpx, which few programs need.

**Source:** RocketMQ ``DefaultTopAddressing#fetchNSAddr``.
"""

from urllib.parse import urlsplit

import httpx

from broker.errors import ClientError, ConnectError
from broker.remoting.rpc.caller import parse_namesrv

FETCH_TIMEOUT_S = 3.0
MAX_LIST_BYTES = 64 * 1024
"""Longest address list read over HTTP."""


def fetch_text(url: str, timeout_s: float = FETCH_TIMEOUT_S) -> str:
    """Read a URL with GET; raises OSError or ValueError."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an HTTP address: {url!r:.100}")
    text = b""
    try:
        with httpx.stream("GET", url, timeout=timeout_s, follow_redirects=True) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes(MAX_LIST_BYTES):
                text += part
                if len(text) >= MAX_LIST_BYTES:
                    break
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error
    except httpx.HTTPError as error:
        raise OSError(str(error)) from error
    return text[:MAX_LIST_BYTES].decode("utf-8", "replace")


def discover_namesrv(url: str, *, timeout_ms: int) -> tuple[str, ...]:
    """Ask an HTTP server for the name servers: one line ``host:port;host:port``.

    ConnectError when it does not respond, or the response is not such a line.
    """
    try:
        addresses = parse_namesrv(fetch_text(url, timeout_ms / 1000).strip().partition("\n")[0])
        reason = "" if addresses else "an empty answer"
    except (OSError, ValueError, ClientError) as error:
        addresses, reason = (), str(error)
    if not addresses:
        raise ConnectError(
            f"name server discovery ({url}): no list of addresses: {reason}",
            "the answer should be one line like 10.0.0.1:9876;10.0.0.2:9876",
            address=urlsplit(url).netloc,
        )
    return addresses
