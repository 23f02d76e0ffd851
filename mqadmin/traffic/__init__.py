"""Messages in bulk: produce from files, consume to an output, measure a cluster.

Duty
    The library of ``mqadmin msg produce``, ``msg consume`` and ``bench``. It uses the client
    (``broker.client``), prints nothing and reads no option.

Theory of operation
    ``input`` splits a byte stream into lines and decodes each as NDJSON, CSV or text; ``outgoing``
    builds the message; ``sender`` sends from an event loop in a thread, with bounds on messages and
    bytes in flight; ``produce`` connects them and knows which line is the first without an outcome.
    ``consume`` yields messages of a group and commits those that were passed on; ``bench`` drives
    the client at a rate and records latencies in a histogram of fixed size.

Guarantees
    Memory is bounded in bytes for an input without end. Every line of an input has one outcome:
    sent, or failed with a reason. A message is committed only after it was printed.
"""
