"""Vectorized ingest: the ordinary sends of one turn in a few compiled calls (extra ``fast``).

::

    turn ─ scan: frames → rows ─ Python: topics, queues, limits ─ append: rows → records
         ─ one copy into the CommitLog ─ replies: rows → response bytes
    first frame that is not ordinary ─ plain path, frame by frame

A turn has the reads of all connections in one iteration of the event loop
(:mod:`broker.remoting.ingest`), one segment per connection. The kernels read and write numpy arrays
only; files are written through their owners in the store. A frame that the kernels do not take is
served by the plain path, in its order, so every rule about unusual requests has one implementation.
Both paths leave the same bytes.
"""
