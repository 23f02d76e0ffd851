"""Runs: recovery's paths that dispatch many consecutive records of the log at once."""
