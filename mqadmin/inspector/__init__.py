"""Inspection: read store directories without a broker and without modifying them.

Duty
    Read the files of a store (of our broker, or of a Java broker 4.9 or 5.x): messages,
    ConsumeQueue units, IndexFile entries, checkpoint, configuration, markers; find messages by
    key, uniqKey or offsetMsgId; summarise a store; report corruption.

Theory of operation
    :class:`~mqadmin.inspector.directory.StoreDirectory` is the entry point: it takes a store's
    root, a folder in it or a single file, and returns rows. Files are opened ``O_RDONLY`` and
    mapped ``ACCESS_READ`` (small ones are read into memory); no lock is taken and no file created.
    Sizes are taken from the files, so no configuration is needed. The log is authoritative: queues
    and index only point into it, and each index hit is compared with its record. Corruption is
    returned as rows between the others, and the scan resumes after it.

Limits
    A live store changes while it is read: the tail is read twice before it is reported as damaged,
    and records appended later are not seen. If another program truncates a mapped file, the
    process is terminated (SIGBUS), like every reader of mapped files; brokers never do that. The
    directory of a RocksDB ConsumeQueue is not read; the log is.

**Source:** RocketMQ ``store`` formats, see ``broker.store.format``.
"""
