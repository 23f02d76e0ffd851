"""Codecs for every file of a store directory, as pure functions; this package opens no files.

Scope
    Decode bytes into values and encode values into the same bytes, for stores of RocketMQ 4.9 and
    5.x: CommitLog, ConsumeQueue (SimpleCQ, extension, batch), IndexFile, checkpoint, marker files,
    timer files and the JSON files of ``config/``.

Design
    Each layout is declared once as a :class:`~broker.store.format.table.Layout`; encoder, decoder,
    scanner, the printed layout and the tests are derived from that table. Scanners yield values
    and corruption (``Damage``), and leave it to recovery, dispatch and inspection whether to
    continue. Buffers are objects with the buffer protocol (bytes, memoryview, mmap); lengths are
    checked before they are used.

Limits
    One buffer is one file (CommitLog files are at most 2 GiB). Values that do not fit into a file
    raise LocalProtocolError; bytes that are not a value yield a Damage or raise
    RemoteProtocolError.

**Source:** RocketMQ ``store`` (CommitLog, ConsumeQueue, BatchConsumeQueue, ConsumeQueueExt,
IndexFile, StoreCheckpoint, timer) and the ``ConfigManager`` classes of ``broker``.
"""
