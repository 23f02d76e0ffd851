"""The log of one store, appended to another one as an HA client does."""

from broker.store.ha.received_records import ReceivedRecords
from broker.store.message_store import MessageStore

MAX_RECORD_BYTES = 4096
Units = dict[tuple[str, int], list[tuple[int, int, int]]]


def copy_log(master: MessageStore, slave: MessageStore, *, read_log: bool = False) -> None:
    """Append the records that the slave lacks, and dispatch; ``read_log``: from the log again."""
    start = slave.max_physical_offset
    received = ReceivedRecords(start, slave.log.file_size, MAX_RECORD_BYTES)
    while (rest := master.log.rest_of_file(received.next_offset)) is not None:
        valid = received.feed(received.next_offset, bytes(rest))
        if valid is None:
            break
        records = () if read_log else valid.records
        slave.writer.append_replica(
            valid.data, valid.physical_offset, valid.store_timestamp, records
        )
    slave.dispatch()


def queue_units(store: MessageStore) -> Units:
    """(physical offset, size, tags code) of each unit, by topic and queue id."""
    return {
        (queue.topic.name, queue.queue_id): [
            unit
            for offset in range(queue.min_offset, queue.max_offset)
            if (unit := queue.unit(offset)) is not None
        ]
        for queue in store.queue_table.all()
        if queue.max_offset
    }
