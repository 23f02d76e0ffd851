"""Flushing: the CommitLog's flush service, the derived files, and the barrier between the two."""
