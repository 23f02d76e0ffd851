"""INSPECTOR: look into store directories without a broker, and without ever changing a byte.

Duty
    Read the files of a store (ours, or of a Java broker 4.9 or 5.x): messages, ConsumeQueue
    units, IndexFile entries, checkpoint, configuration, markers; find messages by key, uniqKey or
    offsetMsgId; sum a store up; say what is damaged.

Theory of operation
    :class:`~mqadmin.inspector.directory.StoreDirectory` is the front door: it takes a store's
    root, a folder in it or a single file, and hands out rows. Files are opened ``O_RDONLY`` and
    mapped ``ACCESS_READ`` (small ones are read whole), no lock is taken, nothing is created. Sizes
    are taken from the files themselves, so no configuration is needed. The log is the truth:
    queues and index are only ways into it, and every hit of the index is checked against the
    record. Damages come out as rows between the others and reading goes on behind them.

Limits
    A live store changes while it is read: the tail is looked at twice before it is called damaged,
    and what is appended later is not seen. A file that another program shortens while it is
    mapped ends the process (SIGBUS), as for every reader of mapped files; brokers never do that.
    The directory of a RocksDB ConsumeQueue is not read; the log is.

**Source:** RocketMQ ``store`` formats, see ``broker.store.format``.
"""
