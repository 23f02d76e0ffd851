"""Transactions: half messages, their end, and the checks of undecided ones.

Duty
    A producer sends a half message, runs its local transaction and ends it with commit or
    rollback (END_TRANSACTION). A half message that stays undecided is checked: the broker asks a
    live producer of the group, up to ``transactionCheckMax`` times, then moves the message to
    TRANS_CHECK_MAX_TIME_TOPIC.

Theory of operation
    ::

        send TRAN_MSG=true ── half topic ──┬─ commit ──── real topic, then op record
                                           ├─ rollback ── op record
                                           └─ check ───── newer copy, request to producer

    Nothing but the log records the state: a half message is open while no op record lists its
    queue offset and the half queue's offset of group CID_RMQ_SYS_TRANS is not past it. A check
    appends a newer copy and passes over the older one, so that this one offset suffices. Both
    offsets (half and op queue) are consumer offsets: they are persisted only up to flushed data.

    ``half``, ``end``, ``decision``, ``ops`` and ``copies`` are pure: records and times in,
    records and verdicts out. ``bridge`` reads and writes the store, ``service`` prepares and ends
    transactions, ``check_service`` runs the check rounds in slices, ``processor`` contains the
    request handlers.

Limits
    A round keeps one bit per half message and 16 bytes per op record, both bounded
    (``ops.RemovalSet``); pending op records are bounded by ``service.MAX_PENDING_BYTES``.

**Source:** RocketMQ TransactionalMessageServiceImpl, TransactionalMessageBridge,
EndTransactionProcessor, TransactionalMessageCheckService.
"""
