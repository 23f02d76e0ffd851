"""The row of one undecided transaction, the same online and offline.

``admin`` builds it from a broker's response, ``inspector`` from a store file.
"""

from typing import Final

import msgspec

from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.transaction import check_times, real_place

OPEN: Final = "open"
DISCARDED: Final = "discarded"


class TransactionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A transaction that is not decided: ``state`` "open" or "discarded" (given up by checks).

    ``topic`` and ``queueId`` are the real ones, None if the record does not name them;
    ``queueOffset`` is that of the record in the half queue, or in TRANS_CHECK_MAX_TIME_TOPIC.
    ``checks`` counts the checks made, ``ageMs`` runs from the producer's send. Times are epoch ms.
    """

    state: str
    topic: str | None
    broker_name: str | None
    queue_id: int | None
    producer_group: str | None
    uniq_key: str | None
    keys: list[str]
    checks: int
    age_ms: int
    born_timestamp: int
    store_timestamp: int
    queue_offset: int
    physical_offset: int
    offset_msg_id: str

    def matches(self, text: str) -> bool:
        """Return whether ``text`` is the uniqKey or the offsetMsgId in either case, or a key."""
        wanted = text.upper()
        return wanted in (self.offset_msg_id, (self.uniq_key or "").upper()) or text in self.keys


def transaction_row(
    message: MessageExt, broker_name: str | None, state: str, now_ms: int
) -> TransactionRow:
    """Build the row of a half message at ``now_ms``."""
    place = real_place(message)
    return TransactionRow(
        state=state,
        topic=place[0] if place else None,
        broker_name=broker_name,
        queue_id=place[1] if place else None,
        producer_group=message.get_property(props.PROPERTY_PRODUCER_GROUP),
        uniq_key=message.uniq_key,
        keys=message.keys,
        checks=max(0, check_times(message) or 0),
        age_ms=max(0, now_ms - message.born_timestamp),
        born_timestamp=message.born_timestamp,
        store_timestamp=message.store_timestamp,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        offset_msg_id=message.offset_msg_id,
    )
