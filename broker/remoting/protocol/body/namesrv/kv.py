"""Tables of text keys and values."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.remoting.protocol.body.base import Body


class KVTable(Body, frozen=True, kw_only=True):
    """Codes 28 (runtime information), 103 (order topics), 219 (a namespace).

    **Source:** RocketMQ ``KVTable``.
    """

    table: dict[str, str] = {}
