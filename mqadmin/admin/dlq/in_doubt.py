"""The lookup of a message in doubt: it was sent, and no response arrived."""

from typing import Final

from broker.errors import ClientError
from mqadmin.admin.dlq.ledger import SENT, Entry
from mqadmin.admin.message import result as kinds
from mqadmin.admin.message.query import MessageQueries
from mqadmin.admin.session import AdminSession

#: Allowed clock difference between a broker and this host.
CLOCK_STEP_MS: Final = 60_000


def find_sent(
    admin: AdminSession,
    entry: Entry,
    uniq_key: str,
    *,
    original_id: str | None,
    now_ms: int,
    first_delivery: bool = False,
) -> Entry | None:
    """Return the new entry of a message in doubt if a broker has it, None if none has.

    It is looked up by its uniqKey among the messages stored since it was sent. ``original_id`` is
    the offsetMsgId of the original, which has the same uniqKey; with ``first_delivery`` retries do
    not count either. ClientError if the brokers cannot be asked.
    """
    found = MessageQueries(admin).query_key(
        entry.topic, uniq_key, begin_ms=entry.at - CLOCK_STEP_MS, unique=True
    )
    for row in found.items:
        if row.offset_msg_id != original_id and not (first_delivery and row.reconsume_times):
            return Entry(
                id=entry.id,
                state=SENT,
                at=now_ms,
                topic=entry.topic,
                broker_name=row.broker_name,
                queue_id=row.queue_id,
                queue_offset=row.queue_offset,
                offset_msg_id=row.offset_msg_id,
                key=entry.key,
            )
    if found.errors or found.kind in (kinds.REFUSED, kinds.UNREACHABLE):
        raise ClientError(
            f"in doubt: cannot determine whether topic {entry.topic} has it: "
            f"{found.detail or found.errors[0].message}"
        )
    return None
