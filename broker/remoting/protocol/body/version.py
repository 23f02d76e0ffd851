"""DataVersion: which state of a table a peer has."""

from broker.remoting.protocol.body.base import Body


class DataVersion(Body, frozen=True, kw_only=True):
    """QUERY_DATA_VERSION (322) and part of many bodies.

    ``timestamp`` ms of the last change, ``counter`` changes so far, ``state_version`` master term
    (5.x). Equal only when all parts are.

    **Source:** RocketMQ ``DataVersion``.
    """

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0
