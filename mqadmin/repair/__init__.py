"""Offline repair: writes into an output directory, never into the damaged store.

Duty
    Repair a store as a copy (:mod:`~mqadmin.repair.store_repair`), and recover messages from files
    that are not a complete store (:mod:`~mqadmin.repair.recover`).

Why this is not in ``mqadmin.inspector``
    Inspection is trusted on live directories because its code cannot write. Code that writes is in
    this package: it opens its sources through the inspector, read-only, and creates its results in
    a new directory. Even ``--in-place`` builds a new directory next to the old one and then
    exchanges their names; the old one is kept as the backup.

Theory of operation
    The log is authoritative. Damaged queue and index files are not patched but rebuilt from the
    log. In the log no record is moved: every good record keeps its physical offset, and with it
    its offsetMsgId. An unreadable region is covered by *filler records*: complete records with a
    valid checksum and the transaction type "rollback", which brokers dispatch to no queue and no
    index. A broker that scans the log at its start therefore neither stops nor truncates it there.
    Lost messages of a queue are replaced by *filler units* that repeat the next unit: consumers
    get that message more than once, but neither stop nor skip messages.

Limits
    Extension units (enableConsumeQueueExt) and RocksDB queues are not built.

**Source:** RocketMQ ``CommitLog#recoverNormally`` (end of the scan),
``CommitLogDispatcherBuildConsumeQueue``, ``CommitLogDispatcherBuildIndex`` (dispatch).
"""
