"""Batch and streaming analysis of store files on Apache Spark (PySpark).

Packages and modules
    ``declarations`` and ``catalog`` describe the jobs without importing Spark; ``jobs`` compute
    their tables with DataFrame functions; ``sources`` are the Spark data sources that read store
    directories; ``spark`` starts the JVM and the session; ``run`` executes one job; ``sinks`` and
    ``export`` write and draw results; ``registration`` holds the top-level modules by
    which Spark discovers the sources.

Operation
    The driver lists the CommitLog files and cuts them into splits at any byte. A worker maps the
    file, finds the first record that starts in its split and returns Arrow batches. Workers decode
    with the column scanner of ``broker.store.format`` through ``mqadmin.inspector.export.arrow``,
    as ``mqadmin store export`` does. A worker imports neither the command line, the network code
    nor the store engine.

Limits
    A split is at least 128 MiB, a batch 8,192 rows; a worker holds one mapped file and one batch.
    Every worker must be able to read the store directories under the same path.

Requires the extra ``spark``; drawing requires the extra ``plot``.
"""
