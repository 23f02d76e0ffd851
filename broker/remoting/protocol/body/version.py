"""DataVersion: the version of a peer's copy of a table."""

from broker.remoting.protocol.body.base import Body


class DataVersion(Body, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION (322) and part of many bodies.

    ``timestamp`` ms of the last change, ``counter`` number of changes, ``state_version`` master
    term (5.x). Two versions are equal only if all three are.

    **Source:** RocketMQ ``DataVersion``.
    """

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0
