"""Transactions of a store, read from its half and op queues."""
