"""Faults of an open store: detection of a lost directory, reactions, the resulting state."""
