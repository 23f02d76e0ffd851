"""Lets Spark find the data source ``rocketmq-queue``."""

from mqadmin.pipeline.tables import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
