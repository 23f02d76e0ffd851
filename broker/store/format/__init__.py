"""FORMAT: every file of a store directory as pure functions; no file is opened here.

Duty
    Turn bytes into values and values into the same bytes, for stores of RocketMQ 4.9 and 5.x:
    CommitLog, ConsumeQueue (classic, extension, batch), IndexFile, checkpoint, markers, timer
    files and the JSON files of ``config/``.

Theory of operation
    Each layout is declared once as a :class:`~broker.store.format.table.Layout`; encoder, decoder,
    scanner, the printed layout and the tests are made from that table. Scanners yield values and
    damages and never stop by themselves at a damage: recovery, dispatch and inspection decide.
    Buffers are anything with the buffer protocol (bytes, memoryview, mmap); lengths are checked
    before they are believed.

Limits
    One buffer is one file (CommitLog files are at most 2 GiB). Values that a file cannot hold
    raise LocalProtocolError, bytes that are no value give a damage or RemoteProtocolError.

**Source:** RocketMQ ``store`` (CommitLog, ConsumeQueue, BatchConsumeQueue, ConsumeQueueExt,
IndexFile, StoreCheckpoint, timer) and the ``ConfigManager`` classes of ``broker``.
"""
