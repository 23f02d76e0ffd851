"""Reading the list of name servers over HTTP.

**Source:** RocketMQ ``DefaultTopAddressing#fetchNSAddr``.
"""

import urllib.request

FETCH_TIMEOUT_S = 3.0
MAX_LIST_BYTES = 64 * 1024
"""Longest address list read over HTTP."""


def fetch_text(url: str) -> str:
    """Read a URL with GET; raises OSError or ValueError."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"not an HTTP address: {url!r:.100}")
    with urllib.request.urlopen(url, timeout=FETCH_TIMEOUT_S) as answer:
        text: str = answer.read(MAX_LIST_BYTES).decode("utf-8", "replace")
    return text
