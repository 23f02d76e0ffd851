"""Verification of a store: log, queues, index, checkpoint and configuration against each other."""
