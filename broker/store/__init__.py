"""STORE: the files of a broker, from the formats up to the engine that writes them.

Duty
    Store messages. ``format`` contains the pure formats (bytes in, values out), the other modules
    the engine: append, dispatch, flush, recovery, cleaning, queries.

Theory of operation
    The CommitLog is authoritative: every message of every topic is appended to one log.
    ConsumeQueue and IndexFile are derived from it. Dispatch, recovery and offline inspection
    check records with the same :func:`broker.store.format.commitlog.check_record`.

Limits
    A store belongs to one process at a time: the ``lock`` file is locked before any other file is
    opened. The package uses no network and does not depend on the broker role.

**Source:** RocketMQ module ``store``.
"""
