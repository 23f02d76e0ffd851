"""PIPELINE: message history out of store files, on Spark through PySpark.

Duty
    Read the files of any number of store directories as tables (``source``), run jobs over them
    (``jobs``), keep what they give exactly once (``output``).

Theory of operation
    The driver lists CommitLog files and cuts them into splits anywhere; a worker maps the file,
    looks for the first record that starts in its split and hands Arrow batches to the engine. The
    decoder is the column scanner of ``broker.store.format`` by way of ``mqadmin.inspector.arrow``:
    the same that ``store export`` uses, so there is one reader of the format. A worker imports
    no more than that: no command line, no network, no store engine.

Limits
    A split is at least 128 MiB, a batch 8,192 rows; a worker holds one mapped file and one batch.
    Store directories must be readable under the same path by every worker.

Needs the extra ``spark``.
"""
