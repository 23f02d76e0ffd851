"""Name server discovery over HTTP; imports httpx, so it is loaded only for such addresses."""

from urllib.parse import urlsplit

import httpx

from broker.errors import ConnectError

#: A discovery response is one line of addresses; a larger response is not an address list.
DISCOVERY_LIMIT_BYTES = 64 * 1024


def discover_namesrv(url: str, *, timeout_ms: int) -> list[str]:
    """Ask an HTTP server for the name servers: one line ``host:port;host:port``.

    ConnectError when it does not respond, or the response is not such a line.

    **Source:** RocketMQ ``DefaultTopAddressing#fetchNSAddr``.
    """
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
