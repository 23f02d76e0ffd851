"""Ordinary pulls: the records of consecutive units, in slices of the log or copied."""
