"""SURGERY: the offline room that writes; every byte goes into an output directory, never back.

Duty
    Make a store whole again as a copy (:mod:`~mqadmin.surgery.repair`), and get messages out of
    files that are no store any more (:mod:`~mqadmin.surgery.recover`).

Why this is not in ``mqadmin.inspector``
    Looking never changes: inspection is trusted on live directories because its code cannot write.
    What writes lives here, opens its sources through the inspector, read-only, and creates its
    results in a directory that did not exist before. Even ``--in-place`` builds the new directory
    beside the old one and then exchanges their names; the old one is kept as the backup.

Theory of operation
    The log is the truth. What verification finds wrong in derived files is not patched but built
    anew from the log. In the log itself nothing is moved: every good record keeps its physical
    offset, and with it its offsetMsgId. A part that cannot be read any more is covered by *filler
    records*: whole records with a right checksum, of the transaction type "rollback", which no
    broker puts into a queue or an index. So a walk from record to record, which is what brokers
    do when they start, meets nothing to stop at and nothing to cut off. A queue goes on behind a
    lost message with a *bridge*: units that repeat the next one, so that consumers get that
    message twice rather than stop or skip.

Limits
    One queue's units are held in memory while it is built from a log that a topic was deleted and
    made again in. Extension units (enableConsumeQueueExt) and RocksDB queues are not built.

**Source:** RocketMQ ``CommitLog#recoverNormally`` (what stops a walk),
``CommitLogDispatcherBuildConsumeQueue``, ``CommitLogDispatcherBuildIndex`` (what is dispatched).
"""
