"""Transactions of running brokers."""
