"""Delayed messages of running brokers: delay levels, timer messages, recall."""
