"""Checks of further files that are derived from the log: timer files, ConsumeQueue extensions."""
