"""STORE: the files of a broker, from the formats up to the engine that writes them.

Duty
    Keep messages. ``format`` holds the pure formats (bytes in, values out), the modules beside it
    the engine: append, dispatch, flush, recovery, cleaning, queries.

Theory of operation
    The CommitLog is the truth: every message of every topic is appended to one log. ConsumeQueue
    and IndexFile are derived from it by one scanner, :func:`broker.store.format.commitlog.
    scan_commitlog`, which recovery, dispatch and offline inspection share.

Limits
    A store belongs to one process at a time: the ``lock`` file is taken before anything is
    touched. The room needs no network and knows no role.

**Source:** RocketMQ module ``store``.
"""
