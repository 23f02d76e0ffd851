"""STORE: the files of a broker, from the formats up to the engine that writes them.

Duty
    Store messages. ``format`` contains the pure formats (bytes in, values out), the other modules
    the engine: append, dispatch, flush, recovery, cleaning, queries.

Theory of operation
    The CommitLog is authoritative: every message of every topic is appended to one log.
    ConsumeQueue and IndexFile are derived from it. ``MessageStore`` composes the parts; each part
    has its collaborators as constructor arguments. ``flushing`` writes the log and the derived
    files to disk, in that order.

    One set of functions in :mod:`broker.store.format.commitlog` decides whether a record starts at
    a position (``check_record``) and reads its fields. Three loops use them and differ in
    their action at other bytes:

    ==================  ====================================  ==================================
    loop                used by                               bytes that are not a record
    ==================  ====================================  ==================================
    ``scan_commitlog``  inspection, repair, pipelines         reported, then resynchronised by
                                                              magic code and physical offset
    ``LogScan``         recovery                              skipped if a plausible record follows
                                                              (store time and queue offsets too),
                                                              holes by SEEK_DATA; else the log ends
    ``ReputService``    dispatch                              dispatch waits
    ==================  ====================================  ==================================

    They are not one generator. Its objects cost: 4.5 us per record against 3.8 us for the two calls
    of recovery and dispatch, of 9 us for a recovered record in all. And its resynchronisation
    cannot ask the queues, which recovery needs to recognise a remnant of an old log.

Limits
    A store belongs to one process at a time: the ``lock`` file is locked before any other file is
    opened. The package uses no network and does not depend on the broker role.

**Source:** RocketMQ module ``store``.
"""
